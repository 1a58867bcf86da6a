#!/bin/sh
# Makes quickjs.wasm and LICENSE again from the npm package, and refuses anything but the recorded bytes.
set -eu
package=quickjs-wasi@3.6.2
package_sum=f1f4349f19a2d849e33ea0ae9bec2e7062b8839f4eceb17c9051ddbaa2720982
wasm_sum=d4c9375f2b1ca4dc95f72c8aa2982a7a9951ac8011490d79c6582df732b4bbd9
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tgz=$(cd "$work" && npm pack --silent --ignore-scripts "$package")
echo "$package_sum  $work/$tgz" | sha256sum -c --quiet -
tar -xzf "$work/$tgz" -C "$work"
echo "$wasm_sum  $work/package/quickjs.wasm" | sha256sum -c --quiet -
cp "$work/package/quickjs.wasm" "$work/package/LICENSE" .
echo "quickjs.wasm is $package"
