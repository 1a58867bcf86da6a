#!/bin/sh
# Bundles the islands with the packages that package-lock.json pins, by version and checksum, and writes their licences.
# A test gives a node_modules that has these packages, and a directory for the bundle and the licences.
set -eu
here=$(pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
modules=${1:-$work/node_modules}
out=${2:-$here/../assets} licences=${2:-$here}
if [ $# = 0 ]; then
	cp package.json package-lock.json "$work"
	(cd "$work" && npm ci --silent --ignore-scripts)
fi
# Styles become sheets that the document adopts, also where it has a head: the policy of the pages refuses style elements.
sed 's/if (!root\.head && root\.adoptedStyleSheets/if (root.adoptedStyleSheets/' "$modules/style-mod/src/style-mod.js" > "$work/style-mod.js"
test "$(grep -c 'if (root.adoptedStyleSheets &&' "$work/style-mod.js")" = 1
NODE_PATH=$modules go run github.com/evanw/esbuild/cmd/esbuild editor.ts --bundle --format=esm --target=es2023 --charset=utf8 --alias:style-mod="$work/style-mod.js" \
	--minify --legal-comments=none --log-level=warning --metafile="$work/meta.json" --outfile="$out/editor.js"
node -e '
const fs = require("fs"), path = require("path"), [meta, modules] = process.argv.slice(1);
const names = new Set(Object.keys(JSON.parse(fs.readFileSync(meta)).inputs).map((file) => /node_modules\/((?:@[^/]+\/)?[^/]+)\/[^]*$/.exec(file)?.[1]).filter(Boolean));
names.add("style-mod");
for (const name of [...names].sort()) {
	const dir = path.join(modules, name);
	const file = fs.readdirSync(dir).find((entry) => /^licen[cs]e/i.test(entry));
	const { version } = JSON.parse(fs.readFileSync(path.join(dir, "package.json")));
	console.log(`${name} ${version}\n\n${fs.readFileSync(path.join(dir, file), "utf8")}`);
}' "$work/meta.json" "$modules" > "$licences/LICENSES"
