package approval

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Status is the state of a request. It leaves Waiting once and does not change again.
type Status string

// The states of a request.
const (
	Waiting  Status = "waiting"
	Approved Status = "approved"
	Denied   Status = "denied"
	Expired  Status = "expired" // not decided in time
	Closed   Status = "closed"  // the run was cancelled
)

// Errors of requests.
var (
	// ErrNotFound reports an unknown request.
	ErrNotFound = errors.New("no such approval")
	// ErrDecided reports a request that is no longer waiting.
	ErrDecided = errors.New("it was decided before")
)

// Request asks people to approve calls of one run. It covers all calls of the run that wait for an approval when the request is created.
type Request struct {
	ID        string     `json:"id"` // begins with apr_
	Run       string     `json:"runId"`
	Task      string     `json:"taskId,omitempty"`
	Session   string     `json:"sessionId,omitempty"`
	User      string     `json:"userId"`
	Status    Status     `json:"status" enum:"waiting,approved,denied,expired,closed"`
	Created   time.Time  `json:"createdAt"`
	Expires   time.Time  `json:"expiresAt"`
	DecidedAt *time.Time `json:"decidedAt,omitempty"`
	DecidedBy string     `json:"decidedBy,omitempty"`
	Reason    string     `json:"reason,omitempty" doc:"Why it was denied."`
	Remember  bool       `json:"remember,omitempty" doc:"Later calls of the same tools in the same task, or run, are not asked about."`
	Calls     []Call     `json:"calls" doc:"What waits."`
	Made      int        `json:"made" doc:"Tool calls that the run has made so far, the waiting ones included."`
	Done      []Effect   `json:"done,omitempty" doc:"What the run has changed so far, or may have changed."`

	// The fields below are not shown to people.
	Principal string     `json:"-"` // credential that started the run or task
	Resume    Resume     `json:"-"`
	Signature *Signature `json:"-"` // signature of an approval that a person confirmed; nil means no signature
}

// Call is a tool call that waits for an approval.
type Call struct {
	N           int             `json:"call"` // number of the call
	Tool        string          `json:"tool"`
	Description string          `json:"description,omitempty" doc:"What the tool's server says that it does."`
	Args        json.RawMessage `json:"args,omitempty" doc:"With tokens in place of personal data. Absent where they are large; the run's journal has them."`
	ArgsBytes   int             `json:"argsBytes"`
	ReadOnly    bool            `json:"readOnly"` // annotation of the tool, as are the next three
	Destructive bool            `json:"destructive"`
	Idempotent  bool            `json:"idempotent"`
	OpenWorld   bool            `json:"openWorld"`
	Reason      string          `json:"reason,omitempty" doc:"Why policy asks."`
	Changed     string          `json:"changed,omitempty" doc:"What has changed since the call was approved before."`
	Binding     Binding         `json:"binding"`
	Values      []Value         `json:"values,omitempty" doc:"Where values in the arguments come from, at the paths that rules of the policy name with from: the first 100."`

	// Replaced, Unread and Compared are set when a single request is shown; they are not stored.
	Replaced []Replacement `json:"replaced,omitempty" doc:"Where tokens in the arguments are replaced by values before the call is made: the first 100 places. Not in lists."`
	Unread   string        `json:"unread,omitempty" doc:"Why it cannot be told where tokens are replaced: their values cannot be read. The call fails then, unless they can be read where it is made."`

	Compared []Comparison `json:"compared,omitempty" doc:"How texts in the arguments differ from what the run has read before, or from an old text that the call has as well: the first 20. Not in lists."`
}

// Comparison is the difference between a text in the arguments of a call and an earlier text. Both have tokens in place of personal data.
type Comparison struct {
	Path    string `json:"path,omitempty" doc:"Where the text is in the arguments." example:"$.content"`
	Tool    string `json:"tool,omitempty" doc:"What the run has read the earlier text with: the latest read whose arguments this call has as well." example:"files__read"`
	Call    int    `json:"call,omitempty" doc:"The number of that call."`
	Since   int    `json:"since,omitempty" doc:"A later call of the run that may have changed it."`
	Old     string `json:"old,omitempty" doc:"Where the earlier text is in the arguments of the same call." example:"$.oldText"`
	Diff    string `json:"diff,omitempty" doc:"Unified difference by lines, with three lines of context. Empty without a problem: the texts are equal."`
	Problem string `json:"problem,omitempty" doc:"Why there is no difference, or only a part."`
}

// Words describes what is compared and any problem with it.
func (c Comparison) Words() string {
	var b strings.Builder
	switch {
	case c.Tool != "":
		fmt.Fprintf(&b, "%s, compared with what the program read with %s before (call %d)", c.Path, c.Tool, c.Call)
	case c.Old != "":
		fmt.Fprintf(&b, "%s, compared with %s", c.Path, c.Old)
	default:
		b.WriteString("not compared")
	}
	if c.Since != 0 {
		fmt.Fprintf(&b, "; call %d may have changed it since", c.Since)
	}
	if c.Problem != "" {
		b.WriteString(": " + c.Problem)
	} else if c.Diff == "" {
		b.WriteString(": the same")
	}
	return b.String()
}

// Replacement is a place in the arguments of a call where a value replaces a token.
type Replacement struct {
	Token    string `json:"token" example:"[NAME_1]"`
	Path     string `json:"path" doc:"The string with the token; (key) stands behind the path of a member whose key has it." example:"$.query"`
	Embedded bool   `json:"embedded" doc:"The string has more than the token."`
	Value    string `json:"value,omitempty" doc:"What the server gets; for callers who act for the user of the request."`
	Written  string `json:"written,omitempty" doc:"The value as the server gets it, where it is escaped for the language of the text around it; for callers who act for the user of the request."`
	Language string `json:"language,omitempty" enum:"sql,shell,html,url,csv,code" doc:"Language of the text around an embedded token, for which the value is escaped (pii.inCode)."`
	Warning  string `json:"warning,omitempty" doc:"Of an embedded token whose value is not escaped and has a quote, a backtick, a backslash, a semicolon, a line break or ${."`
}

// Value says where a value in the arguments of a call comes from.
type Value struct {
	Path string `json:"path" doc:"Path as the rule has it." example:"$.iban"`
	// From is a phrase, because a tool, the code and an unknown source need different wording.
	From string `json:"from" doc:"In words." example:"comes from mail__read"`
}

// Binding identifies the call that an approval is valid for. The approval is void for a call with a different Binding.
type Binding struct {
	Definition string `json:"definition" doc:"Hash of the tool's definition."`
	Args       string `json:"args" doc:"Keyed hash of the arguments that are to be sent."`
}

// Effect is a call that changed something, or may have changed something.
type Effect struct {
	Call  int    `json:"call"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	State string `json:"state"` // state: done, failed or in_doubt
}

// Resume is the state that a waiting run needs to continue, in addition to its journal.
type Resume struct {
	Elapsed  time.Duration         `json:"elapsed,omitzero"`  // duration of the run so far, without the time that it waited for approvals
	Computed time.Duration         `json:"computed,omitzero"` // computing time of its program
	Timers   map[int]time.Duration `json:"timers,omitempty"`  // remaining time of pending timers, by call
}

// Decision is a person's decision about a request.
type Decision struct {
	Approve  bool
	Reason   string // reason of a denial
	Remember bool   // whether to approve later calls of the same tools as well
	By       string // the person who decides
	Time     time.Time
	// Sign signs the approval; nil if no person has to confirm it, or if Assertion is set. Seen identifies the request as the person saw it.
	Sign Sign
	Seen Sight
	// Assertion is the response of a security key that approves the request; nil if none is used. With an Assertion, Time is the time at which the
	// security key was asked (Asked.At).
	Assertion *Assertion
	// Signature is the signature that the store keeps; nil means no signature.
	Signature *Signature
}

// Filter selects requests; an empty field does not restrict the selection.
type Filter struct {
	User   string
	Task   string
	Status Status
	Limit  int // maximum number of requests; default 50, at most 1000
	Cursor string
}

// Whole reports whether a request includes the arguments of all its calls.
func (r Request) Whole() bool {
	for _, c := range r.Calls {
		if c.Args == nil && c.ArgsBytes > 0 {
			return false
		}
	}
	return true
}
