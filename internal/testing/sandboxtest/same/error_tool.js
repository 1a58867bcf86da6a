// A tool that there is not, uncaught.
await tools.up.nothing({ n: 1 })
