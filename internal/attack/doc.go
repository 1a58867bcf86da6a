// Package attack tests a policy: gullible programs take destinations from the answers of servers and pass them to tools that send something. The
// package reports which destinations reach these tools.
//
// # What is real and what is simulated
//
// Definitions of tools, the policy, the gate, the sandbox and the programs are real. The servers are simulated (World): each has the name and the
// tools of a configured one, answers with texts that name a destination of the attacker, and records the calls that it receives. No configured
// server is started or called for an attempt, and nothing leaves the process. An answer has the shape that its tool declares or that was learned
// from earlier answers. If neither is known, the answer is a text.
//
// # An attempt
//
// An attempt is a source, a sink and a form. The source is a tool whose answers the policy does not trust, or any tool if the policy trusts all.
// The sink is an argument that says where a call of a tool sends something (package destination). The form is the way in which the program takes
// the value from the source to the sink (Forms): unchanged, in pieces, encoded, through a file or an error, in the text of a later program. Each
// attempt has a value of its own. An attempt got through if the simulated server of the sink received the value of the attempt. A call of a sink
// about which the policy asks a person counts as stopped, because the person is assumed to deny it. The person is assumed to allow calls of
// sources.
//
// Each attempt begins with a call of the simulated server Marker. By this call, World and Judge know to which attempt the next calls belong.
//
// # What it does not show
//
// The package does not try destinations that neither the definition of a tool nor the configuration names. The programs are fixed, and no model
// writes them. A failed attempt says nothing about a cleverer program.
package attack
