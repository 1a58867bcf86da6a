#!/bin/sh
# Bundles the libraries that package-lock.json pins, by version and checksum, with their licences.
set -eu
here=$(pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp package.json package-lock.json index.js "$work"
: > "$work/empty.js" # in place of qs: queries come and go as text
(cd "$work" && npm ci --silent --ignore-scripts)
go run github.com/evanw/esbuild/cmd/esbuild "$work/index.js" --bundle --format=iife --global-name=__libraries --target=es2023 \
	--alias:qs="$work/empty.js" --minify --legal-comments=none --log-level=warning --metafile="$work/meta.json" --outfile="$here/libraries.js"
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
