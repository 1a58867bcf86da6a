package demo

import (
	"embed"
	"encoding/json"
	"fmt"
)

//go:embed programs/*.ts
var programs embed.FS

//go:embed codetools.json
var codeTools []byte

// Task is what the demo has done, in a user's words.
const Task = "Analyse the sales of 2024 in the database: number of orders, total, and the best customers with their names from the CRM. " +
	"Save the analysis as a skill, use it to compare the first half of 2025 with that of 2024, and mail a short report to the sales lead."

// Answer is what the recorded model says at the end.
const Answer = "The sales of 2024 are analysed, the analysis is saved as a skill, and the report is mailed to the sales lead."

// Step is one program of the demo.
type Step struct {
	Title       string
	Explanation string
	Code        string // TypeScript
	// Check, if not empty, is SQL that gives one row, whose columns must equal the fields of those names in the output.
	Check string
}

// Steps are the programs of the demo in order. Later ones rely on what earlier ones wrote.
func Steps() ([]Step, error) {
	steps := []struct {
		file string
		Step
	}{
		{"1_discover.ts", Step{
			Title:       "Discover",
			Explanation: "The model knows no tool in advance. It asks for what the task needs.",
		}},
		{"2_describe.ts", Step{
			Title:       "Describe",
			Explanation: "It reads the types of the few tools it will use, and looks at the table.",
		}},
		{"3_query.ts", Step{
			Title:       "Query and summarise",
			Explanation: "A year of sales is read and added up inside the sandbox, then joined with the CRM.",
			Check:       "SELECT count(*) AS orders, sum(amount) AS total FROM sales WHERE date LIKE '2024-%'",
		}},
		{"4_save_skill.ts", Step{
			Title:       "Save a skill",
			Explanation: "What worked is kept as a function in /skills, for this user's later sessions.",
		}},
		{"5_reuse.ts", Step{
			Title:       "Reuse it",
			Explanation: "A new run imports the skill and compares the first half of 2025 with that of 2024.",
			Check: "SELECT sum(date >= '2025') AS orders, sum(iif(date >= '2025', amount, 0)) AS total, " +
				"sum(iif(date < '2024-07', amount, 0)) AS before FROM sales",
		}},
		{"6_mail.ts", Step{
			Title:       "Mail a report",
			Explanation: "The sales lead is found in the CRM and gets a mail. The demo's mailer writes it to a file.",
		}},
	}
	list := make([]Step, len(steps))
	for i, s := range steps {
		code, err := programs.ReadFile("programs/" + s.file)
		if err != nil {
			return nil, fmt.Errorf("read the demo's program: %w", err)
		}
		list[i] = s.Step
		list[i].Code = string(code)
	}
	return list, nil
}

// CodeTools are the tool definitions that a model works with in code mode, however many servers are connected.
func CodeTools() ([]json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(codeTools, &list); err != nil {
		return nil, fmt.Errorf("read the definitions of code mode: %w", err)
	}
	return list, nil
}
