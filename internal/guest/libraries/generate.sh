#!/bin/sh
# Bundles the libraries that package-lock.json pins, by version and checksum, with their licences.
set -eu
here=$(pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp package.json package-lock.json ./*.js "$work"
rm "$work/libraries.js"
: > "$work/empty.js" # in place of qs: queries come and go as text
(cd "$work" && npm ci --silent --ignore-scripts)
# The table of tr46 becomes objects when it is first needed: most programs never do, and a collector visits every object.
sed -i -e 's|^const mappingTable = require("./lib/mappingTable.json");|let mappingTable;|' \
	-e 's|^function findStatus(val) {|&\n  mappingTable ??= JSON.parse(require("./lib/mappingTable.json"));|' "$work/node_modules/tr46/index.js"
test "$(grep -c 'mappingTable ??= JSON.parse' "$work/node_modules/tr46/index.js")" = 1
sed -i "s|require('./multi-byte.encodings.json')|JSON.parse(&)|" "$work/node_modules/@exodus/bytes/fallback/multi-byte.encodings.cjs"
grep -q 'JSON.parse(require' "$work/node_modules/@exodus/bytes/fallback/multi-byte.encodings.cjs"
go run github.com/evanw/esbuild/cmd/esbuild "$work/index.js" --bundle --format=iife --global-name=__libraries --target=es2023 --platform=neutral --main-fields=main --charset=utf8 \
	--loader:.json=text --alias:qs="$work/empty.js" \
	--alias:@exodus/bytes/encoding.js="$work/empty.js" --alias:@exodus/bytes/whatwg.js="$work/percent.js" --alias:tr46="$work/tr46.js" --minify --legal-comments=none --log-level=warning --metafile="$work/meta.json" --outfile="$here/libraries.js"
# The licences of what is in the bundle.
node -e '
const fs = require("fs"), path = require("path"), [work] = process.argv.slice(1);
const names = new Set(Object.keys(JSON.parse(fs.readFileSync(path.join(work, "meta.json"))).inputs)
	.map((file) => /node_modules\/((?:@[^/]+\/)?[^/]+)\/[^]*$/.exec(file)?.[1]).filter(Boolean));
for (const name of [...names].sort()) {
	const dir = path.join(work, "node_modules", name);
	const file = fs.readdirSync(dir).find((entry) => /^licen[cs]e/i.test(entry));
	const { version } = JSON.parse(fs.readFileSync(path.join(dir, "package.json")));
	console.log(`${name} ${version}\n\n${fs.readFileSync(path.join(dir, file), "utf8")}`);
}' "$work" > LICENSES
