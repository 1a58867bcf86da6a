// Package attack tests a policy: gullible programs take destinations from the answers of servers and pass them to tools that send something. The
// package reports which destinations get there.
//
// # What is real and what is simulated
//
// Definitions of tools, the policy, the gate, the sandbox and the programs are real. The servers are simulated (World): each has the name and the
// tools of a configured one, answers with texts that name a destination of the attacker, and records what it is sent. No configured server is started
// or called for an attempt, and nothing leaves the process. The answer of a server has the shape that its tool declares or that was learned from it,
// or else is a text.
//
// # An attempt
//
// An attempt is a source, a sink and a form. The source is a tool of a server that others write into. The sink is an argument that says where a call
// of a tool sends something (package destination). The form is the way in which the program takes the value from one to the other (forms.js):
// unchanged, in pieces, encoded, through a file or an error, in the text of a later program. Each attempt has a value of its own. An attempt got
// through if the simulated server of the sink received its value. A call about which the policy asks a person counts as stopped, because the person
// denies it. A person is assumed to allow calls of sources.
//
// Each attempt begins with a call of a tool of the package's own, so that World and Judge know to which attempt a call belongs.
//
// # What it does not show
//
// Destinations that the definition of a tool does not show, and the configuration does not name, are not tried. The programs are fixed, and no model
// writes them: that an attempt fails says nothing about a cleverer program.
package attack
