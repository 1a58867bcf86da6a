// Package attack tries a policy: it has gullible programs take destinations from what servers say to where tools send something, and reports which get there.
//
// # What is real and what is simulated
//
// Definitions of tools, the policy, the gate, the sandbox and the programs are real. The servers are simulated (World): each has the name and the tools of a configured
// one, answers with texts that name a destination of the attacker, and records what it is sent. No configured server is started or called for an attempt, and
// nothing leaves the process. What a server answers has the shape that its tool declares, or that was learned of it, else it is a text.
//
// # An attempt
//
// An attempt is a source, a sink and a form. The source is a tool of a server that others write into. The sink is an argument of a tool that says where a call
// sends something (package destination). The form is the way in which the program takes the value from one to the other (forms.js): unchanged, in pieces,
// encoded, through a file or an error, in the text of a later program. Each attempt has a value of its own. It got through if the simulated server of the sink was sent
// the value. A call that the policy has a person decide on counts as stopped: the person denies it. That a source is asked
// for something a person would allow.
//
// Each attempt begins with a call of a tool of the package's own, so that World and Judge know which one a call belongs to.
//
// # What it does not show
//
// Destinations that the definition of a tool does not show, and the configuration does not name, are not tried. What the programs cannot do, no model was made to
// do: an attempt that fails says nothing about a cleverer program.
package attack
