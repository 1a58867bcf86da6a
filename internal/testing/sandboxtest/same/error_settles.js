// A program that waits for nothing.
await new Promise(() => {})
