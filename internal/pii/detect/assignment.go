package detect

import (
	"bytes"
	"strings"
)

// strength is the kind of secret that the name of a value suggests.
type strength int

const (
	plain        strength = iota
	key                   // the value is a key of random characters
	passwordLike          // the value is a password, which a person may have chosen
)

const (
	maxName   = 48      // maximum bytes of a name before a value
	maxSecret = 4 << 10 // maximum bytes of a value
)

// strengthOf returns the strength that the last words of a value's name suggest. The names api_key, clientSecret and DB_PASSWORD suggest a secret,
// token_count and keyboard do not.
func strengthOf(name string) strength {
	name = strings.TrimRight(name[max(0, len(name)-maxName):], "0123456789_-. ")
	if len(name) < 3 || !endings[name[len(name)-1]|0x20] {
		return plain
	}
	last := tailWord(&name)
	if nameWords[last] == "qualifier" {
		last = tailWord(&name)
	}
	switch meaningOf(last) {
	case "password":
		return passwordLike
	case "secret":
		return key
	case "token":
		if nameWords[tailWord(&name)] != "paging" {
			return key
		}
	case "key":
		switch nameWords[tailWord(&name)] {
		case "purpose", "secret", "token":
			return key
		}
	}
	return plain
}

// meaningOf returns the meaning of a word in a name, or "". A word that ends with a word for a password, such as PGPASSWORD, means a password too.
func meaningOf(word string) string {
	if meaning := nameWords[word]; meaning != "" {
		return meaning
	}
	for _, ending := range [...]string{"password", "passwd", "passphrase"} {
		if strings.HasSuffix(word, ending) {
			return "password"
		}
	}
	return ""
}

// sessions are names of session cookies in any context. cookieSessions are names of session cookies only where cookies are named, because other
// values have these names too.
var sessions, cookieSessions = set("phpsessid jsessionid aspsessionid aspnetsessionid connectsid laravelsession cfid cftoken sessionidss"),
	set("session sessionid sessid sid sess ssid hostsid securesid remember remembertoken remembermetoken")

// cookie reports whether the name from start to end, before a =, is that of a session cookie.
func (s *scanner) cookie(start, end int) bool {
	const most = 256 // maximum bytes of the header or the option before the name
	var plain [maxWord]byte
	n := 0
	for i := start; i < end; i++ {
		c := s.text[i]
		if classes[c]&alnum == 0 {
			continue
		}
		if n == len(plain) {
			return false
		}
		if classes[c]&upper != 0 {
			c |= 0x20
		}
		plain[n] = c
		n++
	}
	if sessions[string(plain[:n])] {
		return true
	}
	if !cookieSessions[string(plain[:n])] && !bytes.HasSuffix(plain[:n], []byte("session")) && !bytes.HasSuffix(plain[:n], []byte("sessionid")) {
		return false
	}
	if s.around.key.words&aboutSecret != 0 {
		return true
	}
	line := s.text[s.border(max(0, start-most)):start]
	line = line[strings.LastIndexByte(line, '\n')+1:]
	return strings.Contains(line, "ookie") || strings.Contains(line, "curl") && strings.Contains(line, " -b")
}

// nameWords maps words of names to their meanings. endings marks the last bytes of the words that may end the name of a secret.
var nameWords, endings = func() (all map[string]string, endings [256]bool) {
	all = map[string]string{}
	for meaning, words := range map[string]string{
		"password": "password passwd pwd passphrase passcode sshpass passwort contraseña senha pass mdp",
		"secret": `secret secrets apikey secretkey accesskey privatekey credential credentials authtoken accesstoken authkey clientsecret apisecret
			apitoken signature sig masterkey`,
		"token": "token authorization auth pat jwt",
		"key":   "key",
		"purpose": `api access private signing encryption account shared master storage hmac service license app application webhook deploy server
			admin client subscription functions aes crypto`,
		"paging":    "page next cursor continuation sync max prev previous",
		"qualifier": "value string text plain raw header prod production dev test live staging",
	} {
		for _, word := range strings.Fields(words) {
			all[word] = meaning
			endings[word[len(word)-1]] = meaning != "paging" && meaning != "purpose" || endings[word[len(word)-1]]
		}
	}
	return all, endings
}()

// tailWord cuts the last word off a name and returns it in lower case.
func tailWord(name *string) string {
	end := len(*name)
	for end > 0 && classes[(*name)[end-1]]&(letter|high) == 0 {
		end--
	}
	start, _ := lastWord((*name)[:end])
	if end-start > maxWord {
		*name = ""
		return ""
	}
	tail := strings.ToLower((*name)[start:end])
	*name = (*name)[:start]
	return tail
}

// assignment looks for a secret after the = or : at i, with its name before it.
func (s *scanner) assignment(i int) {
	if i < s.assigned {
		return
	}
	end := i
	for end > 0 && i-end < 3 && strings.IndexByte(` "'`+"`]", s.text[end-1]) >= 0 {
		end--
	}
	if s.text[i] == '=' && end > 0 && strings.IndexByte(":!<>=+", s.text[end-1]) >= 0 || !s.is(end-1, letter|high|digit) {
		return
	}
	start := end
	for start > 0 && end-start < maxName && (s.is(start-1, word) || s.text[start-1] == '-' || s.text[start-1] == '.' || s.text[start-1] == ' ' && s.is(start, letter) && end-start < 24) {
		start--
	}
	strong := strengthOf(s.text[start:end])
	if strong == plain && s.text[i] == '=' {
		name := end
		for name > start && s.is(name-1, ascii) || name > start && (s.text[name-1] == '-' || s.text[name-1] == '.') {
			name--
		}
		if s.cookie(name, end) {
			strong = key
		}
	}
	if strong == plain || s.text[i] == '>' && s.at(start-1) != '<' {
		return
	}
	from := i + 1
	for from < len(s.text) && from-i < 5 && strings.IndexByte(" =>:", s.text[from]) >= 0 {
		from++
	}
	quote := byte(0)
	if c := s.at(from); c == '"' || c == '\'' || c == '`' {
		quote = c
		from++
	}
	stop := " \t\r\n\"'`,;<>|&)}]"
	if quote != 0 {
		stop = "\r\n" + string(quote)
	}
	value := s.text[from:s.border(from+maxSecret)]
	if n := strings.IndexAny(value, stop); n >= 0 {
		value = value[:n]
	}
	if len(value) > maxName {
		s.assigned = from + len(value)
	}
	shouted := strings.ToUpper(s.text[start:end]) == s.text[start:end] && from == i+1 // The text has the form DB_PASSWORD=value.
	s.secretValue(from, value, strong, quote != 0 || shouted)
}

// identifier has the characters of expressions such as config.password.
const identifier = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_."

// secretValue records a value as a secret if it looks like one. A value that is not a literal must not look like an expression or a word.
func (s *scanner) secretValue(from int, value string, strong strength, literal bool) {
	for _, scheme := range []string{"Bearer ", "Basic ", "Token ", "bearer ", "basic ", "token "} {
		if rest, ok := strings.CutPrefix(value, scheme); ok {
			from += len(scheme)
			value = rest
		}
	}
	value = strings.TrimRight(value, ".")
	if placeholder(value) || !literal && (strings.ContainsAny(value, "({") || strings.Trim(value, identifier) == "") {
		return
	}
	var seen uint8
	marks := false
	for i := range len(value) {
		seen |= classes[value[i]]
		marks = marks || classes[value[i]]&word == 0
	}
	switch strong {
	case passwordLike:
		kinds := 0
		for _, some := range []bool{seen&digit != 0, seen&upper != 0, seen&lower != 0, marks} {
			if some {
				kinds++
			}
		}
		if len(value) < 4 || !literal && kinds < 2 && len(value) < 6 || strings.Contains(value, " ") && kinds < 3 {
			return
		}
	default:
		if len(value) < 12 || strings.Contains(value, " ") || seen == digit || !random(value) {
			return
		}
	}
	s.add(from, from+len(value), secret, value)
}

// placeholder reports whether a value is only a placeholder for a secret, such as xxx or ${TOKEN}.
func placeholder(value string) bool {
	if value == "" || strings.Trim(value, "*x.X•-_?#") == "" || strings.HasPrefix(value, "[") && strings.HasSuffix(value, "]") {
		return true
	}
	for _, start := range []string{"$", "<", "{{", "%", "process.env", "os.environ", "os.Getenv", "env.", "ENV[", "secrets.", "vault:", "arn:", "./"} {
		if strings.HasPrefix(value, start) {
			return true
		}
	}
	if value[0] == '/' && (len(value) < 32 || strings.Contains(value, ".")) { // The value is a path.
		return true
	}
	switch strings.ToLower(value) {
	case "null", "none", "nil", "true", "false", "undefined", "string", "required", "optional", "redacted", "hidden", "empty", "password",
		"number", "boolean", "object", "invalid", "expired", "missing":
		return true
	}
	return false
}
