package harness

import (
	"encoding/json"
	"time"
)

// The types have the fields of the OpenAPI document that most programs use. Times that are absent are zero.

// Budget limits a task. Wall is a text such as "2m".
type Budget struct {
	Turns  int     `json:"turns,omitempty"`
	Runs   int     `json:"runs,omitempty"`
	Tokens int     `json:"tokens,omitempty"`
	Cost   float64 `json:"costUsd,omitempty"`
	Wall   string  `json:"wall,omitempty"`
}

// NewTask is the request for a task.
type NewTask struct {
	UserID       string     `json:"userId,omitempty"`
	Task         string     `json:"task"`
	SessionID    string     `json:"sessionId,omitempty"`
	Context      any        `json:"context,omitempty"`
	Model        string     `json:"model,omitempty"`
	CallbackURL  string     `json:"callbackUrl,omitempty"`
	RunAt        *time.Time `json:"runAt,omitempty"`
	Budget       *Budget    `json:"budget,omitempty"`
	CacheSeconds int        `json:"cacheSeconds,omitempty"`
	Key          string     `json:"-"` // Idempotency-Key; empty for a new one
}

// Failure is why a task failed.
type Failure struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Task is a task in the background.
type Task struct {
	ID        string          `json:"id"`
	SessionID string          `json:"sessionId"`
	UserID    string          `json:"userId"`
	Task      string          `json:"task"`
	Status    string          `json:"status"`
	Message   string          `json:"message"`
	Text      string          `json:"text"`
	Output    json.RawMessage `json:"output"`
	Logs      []string        `json:"logs"`
	Runs      []string        `json:"runs"`
	Error     *Failure        `json:"error"`
	Created   time.Time       `json:"createdAt"`
	Ended     time.Time       `json:"endedAt"`
}

// TaskList is a page of tasks. Next is the cursor of the next page; it is empty on the last one, as in the other lists.
type TaskList struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"next"`
}

// Answer is the answer of DoTask.
type Answer struct {
	Message   string          `json:"message"`
	Text      string          `json:"text"`
	Output    json.RawMessage `json:"output"`
	Error     string          `json:"error"`
	Logs      []string        `json:"logs"`
	TaskID    string          `json:"taskId"`
	SessionID string          `json:"sessionId"`
	Runs      []string        `json:"runs"`
}

// NewRun is the request for a run. Timeout and Wait are texts such as "5s".
type NewRun struct {
	UserID    string `json:"userId,omitempty"`
	Code      string `json:"code"`
	SessionID string `json:"sessionId,omitempty"`
	Sandbox   string `json:"sandbox,omitempty"`
	Timeout   string `json:"timeout,omitempty"`
	Input     *Input `json:"input,omitempty"`
	Wait      string `json:"wait,omitempty"`
	Key       string `json:"-"` // Idempotency-Key; empty for a new one
}

// Input names the file of the session that a program works on.
type Input struct {
	Path   string `json:"path"`
	Format string `json:"format,omitempty"`
}

// Log is a console line.
type Log struct {
	Level string `json:"level"`
	Text  string `json:"text"`
}

// RunError is why a run failed.
type RunError struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Hint    string `json:"hint"`
	Tool    string `json:"tool"`
}

// Run is a run and its outcome. UserID, Code and the times are in the answer of Client.Run only.
type Run struct {
	ID        string          `json:"runId"`
	UserID    string          `json:"userId"`
	SessionID string          `json:"sessionId"`
	Code      string          `json:"code"`
	Status    string          `json:"status"`
	Output    json.RawMessage `json:"output"`
	Logs      []Log           `json:"logs"`
	Error     *RunError       `json:"error"`
	Approval  *Approval       `json:"approval"`
	Warnings  []string        `json:"warnings"`
	Calls     int             `json:"calls"`
	Duration  float64         `json:"durationMs"`
	Sandbox   string          `json:"sandbox"`
	Started   time.Time       `json:"startedAt"`
	Ended     time.Time       `json:"endedAt"`
}

// RunLine is a run in a list. Error is the kind of its error.
type RunLine struct {
	ID        string    `json:"runId"`
	UserID    string    `json:"userId"`
	SessionID string    `json:"sessionId"`
	Status    string    `json:"status"`
	Error     string    `json:"error"`
	Calls     int       `json:"calls"`
	Started   time.Time `json:"startedAt"`
	Ended     time.Time `json:"endedAt"`
}

// RunList is a page of runs.
type RunList struct {
	Runs []RunLine `json:"runs"`
	Next string    `json:"next"`
}

// Journal is a page of the records of a run.
type Journal struct {
	Records []json.RawMessage `json:"records"`
	Next    int64             `json:"next"`
}

// Capability is a token for CallTool.
type Capability struct {
	Token   string    `json:"authToken"`
	Expires time.Time `json:"expiresAt"`
}

// Approval is what a run asks people before it makes calls.
type Approval struct {
	ID      string         `json:"id"`
	RunID   string         `json:"runId"`
	TaskID  string         `json:"taskId"`
	UserID  string         `json:"userId"`
	Status  string         `json:"status"`
	Reason  string         `json:"reason"`
	Calls   []ApprovalCall `json:"calls"`
	Created time.Time      `json:"createdAt"`
	Expires time.Time      `json:"expiresAt"`
}

// ApprovalCall is a call that waits.
type ApprovalCall struct {
	Call   int             `json:"call"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args"`
	Reason string          `json:"reason"`
}

// ApprovalList is a page of approvals.
type ApprovalList struct {
	Approvals []Approval `json:"approvals"`
	Next      string     `json:"next"`
}

// Session is a conversation and its files.
type Session struct {
	ID      string    `json:"id"`
	UserID  string    `json:"userId"`
	Tasks   int       `json:"tasks"`
	Created time.Time `json:"createdAt"`
}

// SessionList is a page of sessions.
type SessionList struct {
	Sessions []Session `json:"sessions"`
	Next     string    `json:"next"`
}

// File is a file or folder of a session.
type File struct {
	Path     string    `json:"path"`
	Dir      bool      `json:"dir"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

// FileList is what a folder contains.
type FileList struct {
	Files []File `json:"files"`
}

// Tool is a tool in a list.
type Tool struct {
	Name        string `json:"name"`
	Server      string `json:"server"`
	Description string `json:"description"`
}

// ToolList is a list of tools.
type ToolList struct {
	Tools []Tool `json:"tools"`
}

// ToolDetails is a tool with its schemas.
type ToolDetails struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	Signature    string          `json:"signature"`
	TypeScript   string          `json:"typescript"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
}

// Skill is a saved skill.
type Skill struct {
	Name        string `json:"name"`
	Path        string `json:"path"`
	Kind        string `json:"kind"`
	Description string `json:"description"`
}

// SkillList is a list of skills.
type SkillList struct {
	Skills []Skill `json:"skills"`
}

// NewSchedule is the request for a schedule: a task, and when it is worked.
type NewSchedule struct {
	NewTask
	Cron     string `json:"cron,omitempty"`
	TimeZone string `json:"timeZone,omitempty"`
}

// Schedule is a schedule.
type Schedule struct {
	ID       string    `json:"id"`
	UserID   string    `json:"userId"`
	Task     string    `json:"task"`
	Cron     string    `json:"cron"`
	TimeZone string    `json:"timeZone"`
	Next     time.Time `json:"next"`
}

// ScheduleList is a list of schedules.
type ScheduleList struct {
	Schedules []Schedule `json:"schedules"`
}
