//go:build deps

package deps

import (
	_ "github.com/alecthomas/kong"
	_ "github.com/evanw/esbuild/pkg/api"
	_ "github.com/goccy/go-yaml"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/joho/godotenv"
	_ "github.com/modelcontextprotocol/go-sdk/mcp"
	_ "github.com/santhosh-tekuri/jsonschema/v6"
	_ "github.com/tetratelabs/wazero"
	_ "github.com/tiktoken-go/tokenizer"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "golang.org/x/text/language"
	_ "modernc.org/sqlite"
	_ "pgregory.net/rapid"
)
