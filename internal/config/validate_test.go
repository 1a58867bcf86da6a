package config

import "testing"

func TestBadServerAndModel(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]string{
		"server: {tls: {cert: a}}":                                        "22: server.tls.cert: it is of no use without server.tls.key; set both or neither",
		"server: {tls: {key: a}}":                                         "21: server.tls.key: it is of no use without server.tls.cert; set both or neither",
		"server: {tls: x}":                                                "15: server.tls: it must be a mapping, not a single value; write its keys indented below it",
		"server: {rateLimit: {maximum: 1}}":                               "22: server.rateLimit.maximum: unknown key; known keys are enabled, max, window",
		"server: {rateLimit: {windw: 1s}}":                                "22: server.rateLimit.windw: unknown key; did you mean server.rateLimit.window?",
		"server: {rateLimt: {}}":                                          "10: server.rateLimt: unknown key; did you mean server.rateLimit?",
		"server: {window: 1s}":                                            "10: server.window: unknown key; did you mean server.rateLimit.window?",
		"server: {rateLimit: {max: 0}}":                                   "27: server.rateLimit.max: 0 is less than 1, the least allowed",
		"server: {cors: {origins: [app.example.com]}}":                    `26: server.cors.origins: "app.example.com" is not an origin; write https://app.example.com, without a path`,
		"server: {cors: {origins: ['http://a/b']}}":                       `26: server.cors.origins: "http://a/b" is not an origin; write https://app.example.com, without a path`,
		"server: {trustedProxies: [proxy]}":                               `26: server.trustedProxies: "proxy" is neither an address nor a range of addresses; write 10.0.0.1 or 10.0.0.0/8`,
		"server: {internalListen: 3001}":                                  `26: server.internalListen: "3001" is not an address; write host:port, such as 127.0.0.1:3001`,
		"server: {metrics: {listen: ''}}":                                 `28: server.metrics.listen: "" is not an address; write host:port, such as 127.0.0.1:9090`,
		"server: {bodyLimit: 2GiB}":                                       "21: server.bodyLimit: 2GiB is more than 1GiB, the most allowed",
		"server: {healthCheck: maybe}":                                    `23: server.healthCheck: "maybe" is neither true nor false`,
		"server: {secret: [a]}":                                           "18: server.secret: it must be a single value, not a list",
		"auth: {oidc: {issuer: 'http://id.example.com'}}":                 `23: auth.oidc.issuer: "http://id.example.com" is not an address that begins with https://; write the iss of the provider's tokens` + "\nharness.yaml:1:23: auth.oidc.issuer: tokens that the provider made for other services would be accepted; set auth.oidc.audience too",
		"auth: {oidc: {issuer: 'http://127.0.0.1:9'}}":                    "23: auth.oidc.issuer: tokens that the provider made for other services would be accepted; set auth.oidc.audience too",
		"auth: {oidc: {audience: a}}":                                     "25: auth.oidc.audience: it is of no use without auth.oidc.issuer; set both or neither",
		"auth: {oidc: {issuer: 'https://a', audience: a, userClaim: ''}}": "60: auth.oidc.userClaim: it may not be empty; remove it to have the default",
		"auth: {apiKeys: []}":                                             "8: auth.apiKeys: unknown key; known keys are oidc, teams",
		"model: {provider: antropic}":                                     `19: model.provider: "antropic" is not one of anthropic, openai, azure, google, compatible, ollama, local; did you mean anthropic?`,
		"model: {name: a, deployment: b}":                                 "18: model.deployment: it is another name of name, which is given too; remove one of them",
		"model: {baseUrl: 'localhost:11434'}":                             "18: model.baseUrl: it is not an address that begins with http:// or https://; write http://127.0.0.1:11434/v1",
		"model: {maxCost: -1}":                                            "18: model.maxCost: -1 is less than 0, the least allowed",
		"model: {maxCost: $5}":                                            `18: model.maxCost: "$5" is not a number`,
		"model: {maxCost: .nan}":                                          `18: model.maxCost: ".nan" is not a number`,
		"model: {maxRuns: 0}":                                             "18: model.maxRuns: 0 is less than 1, the least allowed",
		"model: {prompts: p}":                                             "18: model.prompts: there is no directory $DIR/work/p; correct the path",
		"model: {prices: [m]}":                                            "17: model.prices: it must be a mapping of names to {input, cachedInput, cacheWrite, output}, not a list",
		"model: {prices: {m: 3}}":                                         "21: model.prices.m: it must be a mapping with input, cachedInput, cacheWrite, output, not a single value",
		"model: {prices: {m: {input: 3}}}":                                "18: model.prices.m: output is missing; add it",
		"model: {prices: {m: {input: 3, output: x}}}":                     `40: model.prices.m.output: "x" is not a number`,
		"model: {prices: {m: {inptu: 3, output: 4}}}":                     "22: model.prices.m.inptu: unknown key; did you mean input?",
		"model: {prices: {m: {in: 3, output: 4}}}":                        "22: model.prices.m.in: unknown key; known keys are input, cachedInput, cacheWrite, output",
		"telemetry: {otlpEndpoint: 'localhost:4317'}":                     "27: telemetry.otlpEndpoint: it is not an address that begins with http:// or https://; write http://127.0.0.1:4318",
	} {
		e := world(t, map[string]string{"work/harness.yaml": yaml + "\n"})
		if got, want := problems(t, e), "harness.yaml:1:"+want; got != want {
			t.Errorf("%s\n got %s\nwant %s", yaml, got, want)
		}
	}
}
