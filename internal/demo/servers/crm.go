package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/demo/dataset"
	"mcp-code-exec-harness/internal/demo/mcptool"
)

const (
	crmInstructions = `Customer relations of a made-up company: who the customers are, how to reach them, who looks after them.
Customer ids are those of the sales database.`

	notesFile = "crm-notes.json"
)

// crm keeps the notes in a file, because every session starts a new server process.
type crm struct {
	root *os.Root
	mu   sync.Mutex // serializes access to the file
}

func newCRM(root *os.Root) *crm { return &crm{root: root} }

// customerProperties are the JSON Schema properties of a dataset.Customer.
const customerProperties = `"id":{"type":"integer"},"name":{"type":"string"},"email":{"type":"string"},
	"phone":{"type":"string"},"company":{"type":"string"},"segment":{"type":"string"},"region":{"type":"string"},
	"owner":{"type":"string","description":"Account manager"},
	"since":{"type":"string","description":"First contact, YYYY-MM-DD"}`

const customerRequired = `"id","name","email","phone","company","segment","region","owner","since"`

func (c *crm) server() *mcp.Server {
	s := mcptool.NewServer("crm", "Customer relations", crmInstructions)
	mcptool.Add(s, mcptool.Definition{
		Name: "search", Title: "Search customers",
		Description: "Find customers by words of their name, company, e-mail address, phone number or account manager. " +
			"All words must match, in any order, ignoring case. Returns the first matches by id and how many there are.",
		Input: `{"type":"object","properties":{
			"q":{"type":"string","description":"Words to look for; empty finds everybody"},
			"limit":{"type":"integer","minimum":1,"maximum":100,"default":10,"description":"Most customers to return"},
			"segment":{"type":"string","enum":["small business","mid-market","enterprise","public sector"]},
			"region":{"type":"string","enum":["East","North","South","West"]}},
			"required":["q"],"additionalProperties":false}`,
		Output: `{"type":"object","properties":{"total":{"type":"integer","description":"How many match"},
			"customers":{"type":"array","items":{"type":"object","properties":{` + customerProperties + `},
			"required":[` + customerRequired + `],"additionalProperties":false}}},
			"required":["total","customers"],"additionalProperties":false}`,
		Hints: mcptool.Reads(),
	}, c.search)
	mcptool.Add(s, mcptool.Definition{
		Name: "get", Title: "Get a customer",
		Description: "One customer by id, with the note about them if there is one.",
		Input: `{"type":"object","properties":{"id":{"type":"integer","description":"Customer id, e.g. 1001"}},
			"required":["id"],"additionalProperties":false}`,
		Output: `{"type":"object","properties":{` + customerProperties + `,"note":{"type":"string"}},
			"required":[` + customerRequired + `],"additionalProperties":false}`,
		Hints: mcptool.Reads(),
	}, c.get)
	mcptool.Add(s, mcptool.Definition{
		Name: "list_segments", Title: "List segments",
		Description: "The customer segments and how many customers each has.",
		Input:       `{"type":"object","properties":{},"additionalProperties":false}`,
		Output: `{"type":"object","properties":{"segments":{"type":"array","items":{"type":"object","properties":{
			"name":{"type":"string"},"customers":{"type":"integer"}},
			"required":["name","customers"],"additionalProperties":false}}},
			"required":["segments"],"additionalProperties":false}`,
		Hints: mcptool.Reads(),
	}, listSegments)
	mcptool.Add(s, mcptool.Definition{
		Name: "list_team", Title: "List the sales team",
		Description: "Our own sales people: the sales lead and the account managers of each region.",
		Input: `{"type":"object","properties":{"role":{"type":"string","enum":["sales lead","account manager"]},
			"region":{"type":"string","enum":["East","North","South","West"],
				"description":"Only who works for this region; the sales lead works for all"}},
			"additionalProperties":false}`,
		Output: `{"type":"object","properties":{"members":{"type":"array","items":{"type":"object","properties":{
			"id":{"type":"integer"},"name":{"type":"string"},"email":{"type":"string"},"role":{"type":"string"},
			"region":{"type":"string"}},"required":["id","name","email","role","region"],"additionalProperties":false}}},
			"required":["members"],"additionalProperties":false}`,
		Hints: mcptool.Reads(),
	}, listTeam)
	mcptool.Add(s, mcptool.Definition{
		Name: "update_note", Title: "Write a note",
		Description: "Set the note about a customer, in place of the one before; an empty note removes it.",
		Input: `{"type":"object","properties":{"id":{"type":"integer"},
			"note":{"type":"string","maxLength":2000}},"required":["id","note"],"additionalProperties":false}`,
		Output: `{"type":"object","properties":{"id":{"type":"integer"},"note":{"type":"string"}},
			"required":["id","note"],"additionalProperties":false}`,
		Hints: mcp.ToolAnnotations{IdempotentHint: true, DestructiveHint: new(bool), OpenWorldHint: new(bool)},
	}, c.updateNote)
	return s
}

type searchInput struct {
	Q       string `json:"q"`
	Limit   int    `json:"limit"`
	Segment string `json:"segment"`
	Region  string `json:"region"`
}

func (c *crm) search(_ context.Context, in searchInput) (any, error) {
	words := strings.Fields(strings.ToLower(in.Q))
	found, total := []dataset.Customer{}, 0
	for _, customer := range dataset.Load().Customers {
		if in.Segment != "" && customer.Segment != in.Segment || in.Region != "" && customer.Region != in.Region || !matches(customer, words) {
			continue
		}
		total++
		if len(found) < in.Limit {
			found = append(found, customer)
		}
	}
	return map[string]any{"total": total, "customers": found}, nil
}

func matches(c dataset.Customer, words []string) bool {
	text := strings.ToLower(strings.Join([]string{c.Name, c.Company, c.Email, c.Phone, c.Owner}, "\n"))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

type getInput struct {
	ID int `json:"id"`
}

func (c *crm) get(_ context.Context, in getInput) (any, error) {
	customer, err := find(in.ID)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	notes, err := c.load()
	if err != nil {
		return nil, err
	}
	return struct {
		dataset.Customer
		Note string `json:"note,omitempty"`
	}{customer, notes[strconv.Itoa(in.ID)]}, nil
}

func find(id int) (dataset.Customer, error) {
	customer, ok := dataset.Load().Customer(id)
	if !ok {
		list := dataset.Load().Customers
		return customer, fmt.Errorf("there is no customer %d; the ids are %d to %d, and search finds customers by name",
			id, list[0].ID, list[len(list)-1].ID)
	}
	return customer, nil
}

type noteInput struct {
	ID   int    `json:"id"`
	Note string `json:"note"`
}

func (c *crm) updateNote(_ context.Context, in noteInput) (any, error) {
	if _, err := find(in.ID); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	notes, err := c.load()
	if err != nil {
		return nil, err
	}
	key := strconv.Itoa(in.ID)
	if notes[key] = in.Note; in.Note == "" {
		delete(notes, key)
	}
	if err := c.save(notes); err != nil {
		return nil, err
	}
	return map[string]any{"id": in.ID, "note": in.Note}, nil
}

// load reads the notes. The caller holds mu.
func (c *crm) load() (map[string]string, error) {
	notes := map[string]string{}
	text, err := c.root.ReadFile(notesFile)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte("{}"), nil
	}
	if err == nil {
		err = json.Unmarshal(text, &notes)
	}
	if err != nil {
		return nil, fmt.Errorf("read the notes in %s (remove the file to start without notes): %w", notesFile, err)
	}
	return notes, nil
}

// save replaces the whole file, so that a server killed at any moment leaves either the old or the new notes.
func (c *crm) save(notes map[string]string) error {
	text, err := json.MarshalIndent(notes, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the notes: %w", err)
	}
	if err := replaceFile(c.root, notesFile, text); err != nil {
		return fmt.Errorf("save the notes: %w", err)
	}
	return nil
}

func listSegments(context.Context, struct{}) (any, error) {
	type segment struct {
		Name      string `json:"name"`
		Customers int    `json:"customers"`
	}
	count := map[string]int{}
	for _, c := range dataset.Load().Customers {
		count[c.Segment]++
	}
	list := []segment{}
	for _, name := range dataset.Segments() {
		list = append(list, segment{name, count[name]})
	}
	return map[string]any{"segments": list}, nil
}

type teamInput struct {
	Role   string `json:"role"`
	Region string `json:"region"`
}

func listTeam(_ context.Context, in teamInput) (any, error) {
	members := []dataset.Member{}
	for _, m := range dataset.Load().Team {
		if (in.Role == "" || m.Role == in.Role) && (in.Region == "" || m.Region == in.Region || m.Region == "all") {
			members = append(members, m)
		}
	}
	return map[string]any{"members": members}, nil
}
