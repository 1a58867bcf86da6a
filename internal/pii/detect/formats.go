package detect

// Alphabets of keys after their prefix.
const (
	inHex    = "x" // 0-9 A-F a-f
	inUpper  = "U" // A-Z 0-9
	inAlnum  = "a" // A-Z a-z 0-9
	inURL    = "w" // letters, digits, _ and -
	inDotted = "d" // letters, digits, and _ - . = + / ~ :
)

// format describes the keys of a service: a prefix, and then min to max characters of an alphabet.
type format struct {
	prefix   string
	alphabet string
	min, max int
}

// formats follow the services' documentation and the rules of gitleaks. They are in alphabetical order of the service.
var formats = []format{
	{"p8e-", inURL, 32, 32},                                                                                    // Adobe
	{"aio_", inAlnum, 28, 28},                                                                                  // Adafruit
	{"AGE-SECRET-KEY-1", inUpper, 58, 58},                                                                      // age
	{"pat", inDotted, 79, 79},                                                                                  // Airtable
	{"LTAI", inAlnum, 20, 24},                                                                                  // Alibaba
	{"AKIA", inUpper, 16, 16}, {"ASIA", inUpper, 16, 16}, {"ABIA", inUpper, 16, 16}, {"ACCA", inUpper, 16, 16}, // Amazon
	{"ABSK", inDotted, 100, 300}, {"bedrock-api-key-", inDotted, 30, 2000}, // Amazon
	{"sk-ant-", inURL, 24, 200},                           // Anthropic
	{"apify_api_", inURL, 36, 50},                         // Apify
	{"AKCp", inAlnum, 65, 75}, {"cmVmd", inAlnum, 50, 70}, // Artifactory
	{"ATATT3", inDotted, 50, 300}, {"ATBB", inAlnum, 28, 40}, {"ATCTT3", inDotted, 50, 300}, // Atlassian
	{"bkua_", inHex, 40, 40}, {"bkct_", inAlnum, 20, 80}, // Buildkite
	{"CCIPAT_", inURL, 40, 100},                      // CircleCI
	{"4b1d", inAlnum, 38, 38},                        // ClickHouse
	{"CLOJARS_", inAlnum, 60, 60},                    // Clojars
	{"v1.0-", inDotted, 140, 200},                    // Cloudflare
	{"CFPAT-", inURL, 43, 43},                        // Contentful
	{"dapi", inHex, 32, 34}, {"dkea", inHex, 32, 34}, // Databricks
	{"ddp_", inAlnum, 34, 40}, {"pub", inHex, 32, 32}, // Datadog
	{"dnkey-", inURL, 60, 100},                                                         // Defined Networking
	{"dop_v1_", inHex, 64, 64}, {"doo_v1_", inHex, 64, 64}, {"dor_v1_", inHex, 64, 64}, // DigitalOcean
	{"dckr_pat_", inURL, 27, 36}, {"dckr_oat_", inURL, 27, 36}, // Docker
	{"dp.pt.", inAlnum, 40, 44}, {"dp.st.", inDotted, 40, 80}, {"dp.ct.", inAlnum, 40, 44}, {"dp.sa.", inAlnum, 40, 44}, // Doppler
	{"sl.", inURL, 100, 2000},                                              // Dropbox
	{"duffel_live_", inDotted, 43, 43}, {"duffel_test_", inDotted, 43, 43}, // Duffel
	{"dt0c01.", inDotted, 80, 100}, {"dt0s01.", inDotted, 80, 100}, // Dynatrace
	{"EZAK", inAlnum, 54, 54}, {"EZTK", inAlnum, 54, 54}, // EasyPost
	{"EAACEdEose0cBA", inAlnum, 20, 300}, {"EAAM", inAlnum, 80, 400}, {"EAAC", inAlnum, 80, 400}, {"EAAG", inAlnum, 80, 400}, // Facebook
	{"figd_", inURL, 40, 60},                                   // Figma
	{"fw_", inAlnum, 22, 30},                                   // Fireworks
	{"FLWSECK", inURL, 12, 60},                                 // Flutterwave
	{"FlyV1 fm", inDotted, 100, 2000}, {"fo1_", inURL, 43, 43}, // Fly.io
	{"fio-u-", inDotted, 64, 64},                                                                                                          // Frame.io
	{"ghp_", inAlnum, 36, 36}, {"gho_", inAlnum, 36, 36}, {"ghu_", inAlnum, 36, 36}, {"ghs_", inAlnum, 36, 36}, {"ghr_", inAlnum, 36, 76}, // GitHub
	{"github_pat_", inURL, 50, 100},                                                                                                           // GitHub
	{"glpat-", inDotted, 20, 60}, {"gldt-", inURL, 20, 60}, {"glrt-", inDotted, 20, 60}, {"glft-", inURL, 20, 60}, {"glsoat-", inURL, 20, 60}, // GitLab
	{"glcbt-", inURL, 20, 60}, {"glptt-", inHex, 40, 40}, {"glagent-", inURL, 50, 60}, {"glimt-", inURL, 20, 60}, {"gloas-", inURL, 64, 64}, // GitLab
	{"glffct-", inURL, 20, 60}, {"GR1348941", inURL, 20, 20}, {"_gitlab_session=", inAlnum, 32, 32}, // GitLab
	{"live_", inURL, 40, 60},                                                       // GoCardless
	{"AIza", inURL, 35, 35}, {"ya29.", inURL, 30, 500}, {"GOCSPX-", inURL, 28, 28}, // Google
	{"1//0", inURL, 40, 120},                              // Google
	{"glsa_", inURL, 41, 41}, {"glc_", inDotted, 32, 400}, // Grafana
	{"gsk_", inAlnum, 40, 60},                              // Groq
	{"pat.", inDotted, 60, 80}, {"sat.", inDotted, 60, 80}, // Harness
	{"hvs.", inURL, 24, 200}, {"hvb.", inURL, 100, 300}, {"hvr.", inURL, 24, 200}, // HashiCorp
	{"HRKU-", inURL, 36, 66},                                // Heroku
	{"hf_", inAlnum, 34, 40}, {"api_org_", inAlnum, 34, 40}, // Hugging Face
	{"ico-", inAlnum, 32, 32},                                  // Infracost
	{"s-s4t2ud-", inHex, 64, 64}, {"s-s4t2af-", inHex, 64, 64}, // Intra42
	{"lsv2_pt_", inURL, 40, 60}, {"lsv2_sk_", inURL, 40, 60}, // LangSmith
	{"lin_api_", inAlnum, 40, 40}, {"lin_oauth_", inAlnum, 40, 64}, // Linear
	{"key-", inHex, 32, 32}, {"pubkey-", inHex, 32, 32}, // Mailgun
	{"sk.eyJ", inDotted, 60, 200}, {"pk.eyJ", inDotted, 60, 200}, // Mapbox
	{"napi_", inAlnum, 40, 80},                                                                               // Neon
	{"nfp_", inAlnum, 36, 40},                                                                                // Netlify
	{"NRAK-", inAlnum, 27, 27}, {"NRII-", inURL, 32, 32}, {"NRJS-", inHex, 19, 19}, {"NRRA-", inHex, 42, 42}, // New Relic
	{"ntn_", inAlnum, 40, 50}, {"secret_", inAlnum, 43, 43}, // Notion
	{"npm_", inAlnum, 36, 36},                                // npm
	{"nvapi-", inURL, 60, 70},                                // NVIDIA
	{"API-", inUpper, 26, 26},                                // Octopus Deploy
	{"ops_eyJ", inDotted, 200, 2000}, {"A3-", inURL, 30, 50}, // 1Password
	{"sk-", inURL, 20, 220},                                                                                           // OpenAI and others
	{"sha256~", inURL, 43, 43},                                                                                        // OpenShift
	{"pplx-", inAlnum, 40, 56},                                                                                        // Perplexity
	{"pcsk_", inURL, 50, 80},                                                                                          // Pinecone
	{"access-sandbox-", inURL, 36, 36}, {"access-production-", inURL, 36, 36}, {"access-development-", inURL, 36, 36}, // Plaid
	{"pscale_tkn_", inDotted, 32, 64}, {"pscale_pw_", inDotted, 32, 64}, {"pscale_oauth_", inDotted, 32, 64}, // PlanetScale
	{"phx_", inURL, 40, 60}, {"phs_", inURL, 40, 60}, // PostHog
	{"PMAK-", inURL, 59, 59},                                  // Postman
	{"pnu_", inAlnum, 36, 36},                                 // Prefect
	{"pul-", inHex, 40, 40},                                   // Pulumi
	{"pypi-", inURL, 50, 300},                                 // PyPI
	{"rdme_", inAlnum, 70, 70},                                // ReadMe
	{"r8_", inAlnum, 37, 40},                                  // Replicate
	{"re_", inURL, 30, 40},                                    // Resend
	{"rubygems_", inHex, 48, 48},                              // RubyGems
	{"tk-us-", inURL, 48, 48},                                 // Scalingo
	{"SG.", inDotted, 66, 66},                                 // SendGrid
	{"xkeysib-", inURL, 64, 90}, {"xsmtpsib-", inURL, 64, 90}, // Sendinblue
	{"sntrys_", inDotted, 40, 400}, {"sntryu_", inHex, 64, 64}, // Sentry
	{"sm_aat_", inAlnum, 16, 16}, {"sm_pat_", inAlnum, 16, 16}, {"sm_sat_", inAlnum, 16, 16}, // SettleMint
	{"shippo_live_", inHex, 40, 40}, {"shippo_test_", inHex, 40, 40}, // Shippo
	{"shpat_", inHex, 32, 32}, {"shpca_", inHex, 32, 32}, {"shppa_", inHex, 32, 32}, {"shpss_", inHex, 32, 32}, // Shopify
	{"xoxb-", inURL, 12, 200}, {"xoxp-", inURL, 12, 200}, {"xoxa-", inURL, 12, 200}, {"xoxr-", inURL, 12, 200}, {"xoxs-", inURL, 12, 200}, // Slack
	{"xoxe-", inURL, 20, 300}, {"xoxe.", inDotted, 20, 300}, {"xapp-", inURL, 20, 200}, {"xoxo-", inURL, 20, 200}, // Slack
	{"sqp_", inHex, 40, 40}, {"squ_", inHex, 40, 40}, {"sqa_", inHex, 40, 40}, // SonarQube
	{"sgp_", inURL, 40, 60},                                                         // Sourcegraph
	{"sq0atp-", inURL, 22, 60}, {"sq0csp-", inURL, 43, 60}, {"EAAA", inURL, 22, 60}, // Square
	{"sk_live_", inAlnum, 16, 120}, {"sk_test_", inAlnum, 16, 120}, {"sk_prod_", inAlnum, 16, 120}, {"rk_live_", inAlnum, 16, 120}, // Stripe
	{"rk_test_", inAlnum, 16, 120}, {"rk_prod_", inAlnum, 16, 120}, {"whsec_", inDotted, 32, 64}, // Stripe
	{"sbp_", inHex, 40, 40}, {"sb_secret_", inURL, 25, 50}, // Supabase
	{"tskey-", inURL, 20, 80},                                                   // Tailscale
	{"tvly-", inURL, 32, 50},                                                    // Tavily
	{"tfp_", inDotted, 59, 59},                                                  // Typeform
	{"SK", inHex, 32, 32},                                                       // Twilio
	{"vcp_", inAlnum, 40, 60},                                                   // Vercel
	{"xai-", inAlnum, 70, 90},                                                   // xAI
	{"AQVN", inURL, 35, 38}, {"t1.", inDotted, 90, 300}, {"y0_", inURL, 50, 70}, // Yandex
}

// schemes are the beginnings of values that have detectors of their own: JSON web tokens, the Authorization header, and webhooks.
var schemes = []string{"eyJ", "Bearer ", "bearer ", "Basic ", "basic ", "Token ", "token ", "hooks.slack.com/", "webhook.office.com/webhookb2/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/"}

// heads has a bit for the first three bytes of each prefix and scheme; formatsOf has the formats by their first two bytes.
var heads, formatsOf = func() (bits [1 << 12]uint8, by map[[2]byte][]format) {
	by = map[[2]byte][]format{}
	for _, f := range formats {
		first := [2]byte{f.prefix[0], f.prefix[1]}
		by[first] = append(by[first], f)
		for next := range 128 {
			head := headOf(f.prefix[0], f.prefix[1], byte(next))
			if len(f.prefix) == 2 || f.prefix[2] == byte(next) {
				bits[head>>3] |= 1 << (head & 7)
			}
		}
	}
	for _, scheme := range schemes {
		head := headOf(scheme[0], scheme[1], scheme[2])
		bits[head>>3] |= 1 << (head & 7)
	}
	return bits, by
}()

func headOf(a, b, c byte) uint16 {
	return uint16((uint32(a) | uint32(b)<<8 | uint32(c)<<16) * 0x9E3779B1 >> 17) // Knuth's multiplicative hashing
}

// isHead reports whether a key may begin at i.
func isHead(text string, i int) bool {
	if i+8 > len(text) {
		return false
	}
	head := headOf(text[i], text[i+1], text[i+2])
	return heads[head>>3]&(1<<(head&7)) != 0
}

// in reports whether a byte belongs to an alphabet.
func in(alphabet string, c byte) bool {
	class := classes[c]
	switch alphabet {
	case inHex:
		return isHex(c)
	case inUpper:
		return class&(digit|upper) != 0
	case inAlnum:
		return class&alnum != 0
	case inURL:
		return class&(alnum|underscore) != 0 || c == '-'
	}
	return class&(alnum|underscore) != 0 || c == '-' || c == '.' || c == '=' || c == '+' || c == '/' || c == '~' || c == ':'
}
