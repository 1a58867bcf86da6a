package demo

import (
	"embed"
	"encoding/json"
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
func Steps() []Step {
	steps := []Step{
		{
			Title:       "Discover",
			Explanation: "The model knows no tool in advance. It asks for what the task needs.",
			Code:        "1_discover",
		},
		{
			Title:       "Describe",
			Explanation: "It reads the types of the few tools it will use, and looks at the table.",
			Code:        "2_describe",
		},
		{
			Title:       "Query and summarise",
			Explanation: "A year of sales is read and added up inside the sandbox, then joined with the CRM.",
			Code:        "3_query",
			Check:       "SELECT count(*) AS orders, sum(amount) AS total FROM sales WHERE date LIKE '2024-%'",
		},
		{
			Title:       "Save a skill",
			Explanation: "What worked is kept as a function in /skills, for this user's later sessions.",
			Code:        "4_save_skill",
		},
		{
			Title:       "Reuse it",
			Explanation: "A new run imports the skill and compares the first half of 2025 with that of 2024.",
			Code:        "5_reuse",
			Check: "SELECT sum(date >= '2025') AS orders, sum(iif(date >= '2025', amount, 0)) AS total, " +
				"sum(iif(date < '2024-07', amount, 0)) AS before FROM sales",
		},
		{
			Title:       "Mail a report",
			Explanation: "The sales lead is found in the CRM and gets a mail. The demo's mailer writes it to a file.",
			Code:        "6_mail",
		},
	}
	for i := range steps {
		code, _ := programs.ReadFile("programs/" + steps[i].Code + ".ts") // is embedded
		steps[i].Code = string(code)
	}
	return steps
}

// CodeTools are the tool definitions that a model works with in code mode, however many servers are connected.
func CodeTools() []json.RawMessage {
	var list []json.RawMessage
	_ = json.Unmarshal(codeTools, &list) // is embedded
	return list
}
