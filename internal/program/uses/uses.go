// Package uses reads what a program does with tools: which it calls, with what, and which fields of the answers it reads. It knows
// no tool: what exists is for its caller to say. It says nothing of what it does not understand.
package uses

// Uses are the values of a program that come from tools, in the order in which they are made: a value is made of earlier ones. Uses are
// shared and must not be changed.
type Uses []Value

// Kind is how a value is made.
type Kind uint8

// Kinds of values. Of is the value that it is made of, Name a name as written.
const (
	Tools   Kind = iota // tools
	ByName              // callMCPTool; Raw: callMCPTool.raw
	Servers             // the module ./servers
	Server              // a module ./servers/Name, or a function of it, ./servers/server/function
	Member              // Of.Name
	Call                // Of(Args...); Result is what its callback returns
	Awaited             // await Of
	Element             // Of[Index], or an item of it: Index is -1
	Param               // parameter Index of the callback of Of, which is a member
	List                // [Items...]
	All                 // Promise.all(Of)
	Promise             // promise of an async function that returns Of
	Mapped              // an array of Of, made by a function of the program for each item of something
)

// Value is one value.
type Value struct {
	Kind    Kind
	Of      int // a place in Uses; -1: unknown
	Name    string
	Index   int
	At      Place
	Args    []Arg
	Items   []int // places in Uses; -1: unknown
	Result  int   // place in Uses; -1: unknown
	Raw     bool
	Quiet   bool // marks a Member whose existence the program tests
	Changed bool // marks a Member that the program assigns or whose type it tests
	// Empty says of a Call that its callback returns nothing, or nothing that has fields.
	Empty bool
}

// Place is a position in the text that was read: a line and a column in bytes, both from 0. Line is -1 for no position.
type Place struct{ Line, Column int }

// Form is what is known of an argument.
type Form uint8

// Forms of arguments.
const (
	Unknown   Form = iota
	Undefined      // same as an absent value
	Null
	String
	Number
	Boolean
	Array
	Object
	Of // a value of Uses
)

// Arg is an argument or a part of one.
type Arg struct {
	Form   Form
	At     Place
	Text   string  // JSON of a literal; "" if only its form is known
	Fields []Field // fields of an object
	Items  []Arg   // items of an array
	Open   bool    // an object or array that has more than is listed, or a call's last argument that stands for any number
	Of     int
}

// Field is a property of an object.
type Field struct {
	Name string
	At   Place
	Arg  Arg
}

// Import is a name that a program imports from ./servers or from below it.
type Import struct {
	Path string // behind "servers/"; "" is ./servers
	Name string // of the export; "*" is all of them
	// Dynamic says that the name is no import: it is the function that stands for import().
	Dynamic bool
}
