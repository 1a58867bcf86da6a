module mcp-code-exec-harness/clients/go

go 1.23
