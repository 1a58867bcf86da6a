package search

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
	"golang.org/x/text/unicode/norm"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// terms are the stems of a text's words. Identifiers are split on case, underscores, hyphens and digits; a run with
// digits in it (s3, n8n, oauth2) is a word of its own besides, because its parts mean little.
func terms(text string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(plain(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		parts := ident.Words(w)
		if strings.ContainsFunc(w, unicode.IsDigit) {
			if whole := strings.ToLower(w); utf8.RuneCountInString(whole) > 1 {
				out = append(out, whole)
			}
			parts = slices.DeleteFunc(strings.FieldsFunc(w, unicode.IsDigit), func(part string) bool { return len(part) < 3 })
		}
		for _, p := range parts {
			p = strings.ToLower(p)
			if !isStopWord(p) {
				out = append(out, stem(p))
			}
		}
	}
	return out
}

// maxStemmed is the length above which a word is no English word.
const maxStemmed = 40

func stem(word string) string {
	if len(word) > maxStemmed {
		return word
	}
	return english.Stem(word, false)
}

// plain takes accents off letters, so that cafe finds café.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFKD.String(text))
}

// isStopWord reports whether a word is too common in requests and descriptions to tell tools apart.
func isStopWord(w string) bool {
	switch w {
	case "a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "anybody", "anyone", "are", "as", "at",
		"be", "because", "been", "before", "being", "but", "by", "can", "could", "did", "do", "does", "done", "each", "every",
		"everybody", "everyone", "everything", "for", "from", "give", "had", "has", "have", "having", "he", "help", "helps",
		"her", "here", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "know", "let", "like", "ll",
		"make", "many", "may", "me", "might", "more", "most", "much", "must", "my", "need", "needs", "no", "nobody", "nor",
		"not", "now", "of", "off", "on", "one", "only", "or", "other", "our", "out", "over", "own", "please", "re", "s",
		"same", "she", "should", "so", "some", "somebody", "someone", "such", "t", "tell", "than", "that", "the", "their",
		"them", "then", "there", "these", "they", "this", "those", "to", "too", "two", "under", "up", "us", "use", "uses",
		"using", "ve", "very", "via", "want", "was", "we", "were", "what", "when", "where", "whether", "which", "while", "who",
		"whom", "whose", "why", "will", "with", "would", "you", "your":
		return true
	}
	return false
}

// clauses splits a request into the steps it asks for: at punctuation, line ends, and the words that join steps.
func clauses(query string) []string {
	var out []string
	var clause []string
	flush := func() {
		if len(clause) > 0 {
			out = append(out, strings.Join(clause, " "))
			clause = nil
		}
	}
	for _, word := range strings.Fields(query) {
		bare := strings.ToLower(strings.TrimFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }))
		switch bare {
		case "and", "then", "also", "afterwards", "finally", "next", "plus":
			flush()
			continue
		}
		clause = append(clause, word)
		if strings.ContainsAny(word[len(word)-1:], ".,;:!?)") {
			flush()
		}
	}
	flush()
	return out
}

// synonyms is groups of words that people use for one another when they ask for something. They are general English
// of offices, no vocabulary of any product. The first of a group is not special.
const synonyms = `
delete remove erase destroy purge trash discard
create make add new register open
create generate build compose write draft
find search list get look lookup query locate discover
get fetch read retrieve show view see check inspect
list enumerate overview browse
describe detail explain
update change edit modify alter adjust fix correct rename
update set replace overwrite
set assign configure define
add append insert
send deliver mail email post
send write share
notify tell inform warn alert announce remind message
message text sms chat note
comment remark note reply feedback
reply answer respond response
email mail inbox letter
file document doc attachment
folder directory
picture image photo screenshot
user person people member login account
employee staff worker colleague people team
hire onboard recruit
leave offboard exit resign
manager boss report
customer client buyer
contact person people
company organisation organization business firm account
meeting event appointment call conference
calendar agenda diary schedule
bill invoice
refund reimburse reimbursement
pay payment charge
buy purchase order pay
purchase book
subscription plan
ticket issue bug task
case request support conversation
error exception failure crash bug
log output
deploy deployment ship release rollout
rollback revert undo return
restart reboot restore
start begin run launch trigger execute
stop cancel end terminate kill abort halt void
close resolve solve finish complete
suppress mute silence
move transfer
upload put store save
download get fetch
copy duplicate clone
merge combine join
assign give hand route
vacation holiday leave absence off
available free
stock inventory
product item article goods
deal opportunity sale
prospect lead
phone telephone call ring number
cost price spend expense
money fund balance payment
parcel package shipment delivery
permission access right role
grant give allow permit
revoke withdraw remove
block disable lock ban
secret password credential key
dashboard chart graph plot
metric number statistic figure
visitor user traffic
repository repo
change diff commit
pull merge
sign signature
contract agreement envelope
schedule plan book reserve
approve accept confirm
applicant candidate
job position vacancy
promotion promo discount coupon voucher code
newsletter campaign
audience subscriber recipient
page article
website site web url
flight plane airline
hotel stay accommodation lodging
trip travel journey
car vehicle
route direction distance
address location place
room place
sheet spreadsheet table row
slide presentation deck
database db sql
object bucket
speech voice audio spoken
transcript transcribe recording
video meeting
summary summarize summarise key
rating review score satisfaction
incident outage
priority urgency urgent severity
pager oncall
history earlier previous past version revision
environment staging production
feature flag toggle
experiment test
`
