// Files and answers of a run of another user that is under way.
// wants: value 0
// made: 4
let got = 0
for (const path of ['/workspace/../$RUN', '/workspace/$RUN', '/workspace/s/../../ann/s/of.txt', '/skills/$RUN', '/skills/../ann']) {
  await fs.readdir(path).then(() => got++, () => {})
  await fs.readFile(path).then(() => got++, () => {})
}
for (const name of ['$RUN', 'up__$RUN', '__proto__', 'constructor']) await callMCPTool(name, { run: '$RUN' }).then(() => got++, () => {})
return got
