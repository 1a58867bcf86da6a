// Package uses analyses what a program does with tools: which tools it calls, with which arguments, and which fields of the answers it reads.
// It does not know which tools exist: its caller compares the uses with the catalog. It reports nothing about code that it does not understand.
package uses

// Uses are the values of a program that come from tools, in the order in which they are created: a value refers only to earlier ones. Uses
// are shared and must not be changed.
type Uses []Value

// Kind is the kind of expression that creates a value.
type Kind uint8

// Kinds of values. Each comment shows the expression in terms of the fields of Value.
const (
	Tools   Kind = iota // global variable tools
	ByName              // callMCPTool, or callMCPTool.raw if Raw is set
	Servers             // module ./servers
	Server              // module ./servers/Name, or a function that is a module of its own, ./servers/server/function
	Member              // Of.Name
	Call                // Of(Args...); Result is the value that its callback returns
	Awaited             // await Of
	Element             // Of[Index], or any item of Of if Index is -1
	Param               // parameter Index of the callback of Of, which is a Member
	List                // [Items...]
	All                 // Promise.all(Of)
	Promise             // promise of an async function that returns Of
	Mapped              // array of the results of a function of the program, called for each item of another array; Of is one result
)

// Value is a value that comes from a tool, or a part or container of such values.
type Value struct {
	Kind    Kind
	Of      int // index in Uses; -1 if unknown
	Name    string
	Index   int
	At      Place
	Args    []Arg
	Items   []int // indexes in Uses; -1 if unknown
	Result  int   // index in Uses; -1 if unknown
	Raw     bool
	Quiet   bool // marks a Member whose existence the program tests
	Changed bool // marks a Member that the program assigns or whose type it tests
	// Empty marks a Call whose callback returns nothing, or a value without fields.
	Empty bool
}

// Place is a position in the code: a line and a column in bytes, both from 0. Line is -1 if the position is unknown.
type Place struct{ Line, Column int }

// Form is the form of an argument, as far as it is known.
type Form uint8

// Forms of arguments.
const (
	Unknown   Form = iota
	Undefined      // undefined or absent
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
	Open   bool    // marks an object or array that may have more parts than Fields or Items, or an argument that is a spread (...x)
	Of     int
}

// Field is a property of an object.
type Field struct {
	Name string
	At   Place
	Arg  Arg
}

// Import is a name that a program imports from ./servers or a module below it.
type Import struct {
	Path string // path after "servers/"; "" is ./servers itself
	Name string // name of the export; "*" is all exports
	// Dynamic reports that the name is not an import but the function that replaces import().
	Dynamic bool
}
