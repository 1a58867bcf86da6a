package destination

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// set makes a set of words.
func set(text string) map[string]bool {
	all := map[string]bool{}
	for _, word := range strings.Fields(text) {
		all[word] = true
	}
	return all
}

// Verbs in names of tools. The first verb decides whether the tool only reads.
var (
	reading = set(`get list search read find fetch query describe lookup count check show view retrieve browse inspect explain summarize download scrape crawl
		extract validate verify analyze analyse diff status stat info whoami ping preview suggest resolve compare calculate is has map geocode directions`)
	writing = set(`create send post update delete remove add invite share write push publish transfer pay set put patch insert upload reply forward move copy merge
		fork submit execute run make schedule notify assign grant edit append modify upsert save register subscribe trigger start stop book order buy purchase
		cancel charge refund withdraw deposit dispatch deliver broadcast navigate goto open click fill request call`)
	sending = set(`send invite share grant dm message notify forward permission permissions access transfer call sms text mail email reply post publish broadcast
		dispatch deliver push member members collaborator collaborators add role message messages flex`)
	removing   = set(`delete remove unassign revoke archive cancel unapprove uninvite unshare disable stop clear purge`)
	publishing = set(`publish produce enqueue queue push watch notify`)
	making     = set(`create make add edit rename update`)
	paying     = set(`pay payment payments payout payouts transfer transfers transaction transactions bank banking wire remit remittance withdraw withdrawal deposit
		invoice refund wallet money iban sepa`)
	directing = set(`send reply forward deliver mail email ship pay transfer notify share bill publish post upload redirect call sms message copy invite cc bcc`)
)

// Nouns in names of arguments.
var (
	people = set(`cc bcc recipient recipients receiver receivers addressee addressees attendee attendees participant participants invitee invitees guest guests
		mailto sendto forward forwardto collaborator collaborators grantee grantees subscriber subscribers payee payees`)
	persons = set(`user users member members username usernames login handle person people contact contacts friend friends group groups team teams audience
		audiences target targets`)
	mails        = set(`email emails mail mails emailaddress emailaddresses`)
	phones       = set(`phone phones telephone tel mobile cell cellphone msisdn whatsapp fax phonenumber`)
	postal       = set(`shippingaddress deliveryaddress mailingaddress`)
	places       = set(`address addresses`)
	channels     = set(`channel channels chat chats room rooms conversation conversations dm jid forum`)
	hooks        = set(`webhook webhooks`)
	threads      = set(`thread threads`)
	connections  = set(`connectionstring connectionstrings`)
	queues       = set(`topic topics queue queues`)
	accounts     = set(`iban ibans beneficiary beneficiaries creditor creditors counterparty counterparties wallet wallets vpa`)
	ledgers      = set(`account accounts`)
	addresses    = set(`url urls uri uris href webhook webhooks endpoint endpoints callback callbacks host hostname hostnames baseurl imageurl weburl`)
	hosts        = set(`domain domains website websites redirect`)
	repositories = set(`repo repos repository repositories bucket buckets remote remotes`)
	owners       = set(`owner owners org organization organisation`)
	projects     = set(`project projects`)
	ends         = set(`destination destinations dest`)

	// Words that may follow a noun in the name of an argument.
	idTails      = set(`id ids address addresses number numbers email emails name names url urls uri key handle handles list user users username jid arn slug value values info details`)
	addressTails = set(`address addresses number numbers list value values`)
	urlTails     = set(`url urls uri uris address addresses name names list value values`)

	// addressParts are the names of the properties that identify a recipient if the recipient is an object.
	addressParts = set(`email emails address addresses id ids phone number numbers url uri value user username handle channel account iban login msisdn`)

	// contents are words in the names of arguments. An argument whose name has one of these words is content that is sent, even if its description
	// mentions a recipient.
	contents = set(`subject body message messages text content contents html title description query template note notes comment comments prompt reason name names
		filter fields label labels summary script code command sql data payload type status format mode cursor limit path file files tag tags`)
)

// senders reports whether the name of an argument, given as words, says where something comes from.
func senders(words []string) bool {
	for i, word := range words {
		switch word {
		case "from", "sender", "source", "src", "original", "current", "old", "previous", "my", "own", "debit", "in", "as", "exclude", "excluded":
			return true
		case "reply": // replyToMessage and replyToId name the message that is answered
			return i+2 < len(words) && words[i+1] == "to" && (words[i+2] == "message" || words[i+2] == "id")
		}
	}
	return false
}

// toward reports whether the name of an account argument, given as words, says that the account receives something.
func toward(words []string) bool {
	return anyOf(words, set(`to destination recipient beneficiary target receiver payee external counterparty`))
}

// matches reports whether one of the nouns is among the words, and all words after it are tails.
func matches(words []string, nouns, tails map[string]bool) bool {
	for i := len(words) - 1; i >= 0; i-- {
		if nouns[words[i]] {
			return true
		}
		if i+1 < len(words) && nouns[words[i]+words[i+1]] { // two words for one, such as shipping address
			return true
		}
		if !tails[words[i]] {
			return false
		}
	}
	return false
}

func anyOf(words []string, of map[string]bool) bool {
	for _, word := range words {
		if of[word] {
			return true
		}
	}
	return false
}

// words returns the words of a name, in lower case: sendTo, send_to, SEND-TO and URLs become send to and urls.
func words(name string) (all []string) {
	var word []rune
	end := func() {
		if len(word) > 0 {
			all, word = append(all, strings.ToLower(string(word))), nil
		}
	}
	letters := []rune(name)
	for i, c := range letters {
		switch {
		case !unicode.IsLetter(c) && !unicode.IsDigit(c):
			end()
			continue
		case unicode.IsUpper(c) && i > 0 && unicode.IsLower(letters[i-1]),
			unicode.IsUpper(c) && i > 0 && i+1 < len(letters) && unicode.IsUpper(letters[i-1]) && unicode.IsLower(letters[i+1]) && string(letters[i+1:]) != "s":
			end()
		}
		word = append(word, c)
	}
	end()
	return all
}

var urlFormats = set("uri url uri-reference iri iri-reference hostname idn-hostname ipv4 ipv6")

// otherEnds matches the description of an argument whose name is, for instance, "to" or "destination", but which is no recipient.
var otherEnds = expression(`\b(date|time|timestamp|line|index|position|offset|language|locale|currency|unit|units|branch|status|state|path|file|folder|directory|version|range|format|location|station|airport|coordinates?|node|entity|page|element|ref|block)\b`)

// ownAccount matches descriptions of arguments that choose among the user's own accounts.
var ownAccount = expression(`\b(authenticated user|send(ing)? from|to send from|which account|account to use|special value)\b|['"]me['"]`)

// descriptions are patterns for the description of an argument. They find a destination whose name is not one of the nouns.
var descriptions = []struct {
	says func() *regexp.Regexp
	kind Kind
}{
	{expression(`\bwebhook url\b|\burl to (post|send|push)\b`), URL},
	{expression(`\b(recipients?|send (it |this |the \w+ )?to|delivered to|whom? to|who (will )?receives?|shared? (it |this |the \w+ )?with|beneficiary|e-?mail address(es)? to|phone number to|addressee|invitees?)\b`), Recipient},
	{expression(`\b(iban|destination account|wallet address|account to (credit|pay|send))\b`), Account},
	{expression(`\bchannel (id|name|to)\b|\bchat id\b`), Channel},
}

// expression returns a function that compiles a regular expression at its first use, because few commands look at definitions.
func expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
