package detect

import (
	"strings"
	"sync"
)

// In JSON, the names of columns may be in a list of their own, as in {"columns":["id","ssn"],"rows":[[1,"…"]]}, or in the first list of a list of
// lists. A name serves as the key of the values at the same index.

// role is the function that a key may have in a table.
type role uint8

const (
	namesColumns role = 1 << iota // the key of a list of names
	namesValue                    // the key of a name in an object that also has the value
	isNamed                       // the key of the value in an object that also has the name
)

var roles = sync.OnceValue(func() map[string]role {
	all := map[string]role{}
	for r, words := range map[role]string{
		namesColumns: "columns cols columnnames colnames headers header head headings fields fieldnames names schema keys titles labels",
		namesValue:   "name field key label column columnname fieldname header title",
		isNamed:      "value values val data v answer",
	} {
		for _, word := range strings.Fields(words) {
			all[word] |= r
		}
	}
	return all
})

// roleOf returns the role of a key, whatever its case and separators.
func roleOf(key string) role {
	if len(key) > maxName {
		return 0
	}
	return roles()[strings.ToLower(strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' {
			return -1
		}
		return r
	}, key))]
}

func set(words string) map[string]bool {
	all := map[string]bool{}
	for _, word := range strings.Fields(words) {
		all[word] = true
	}
	return all
}

// columns is the part of a container's state that concerns the names of columns.
type columns struct {
	at    int    // offset of the object or list
	names []name // names of the columns of an object's lists, or of a list's elements
	inRow bool   // whether the object or list is a row or is in a row
	lists bool   // the object has had a list of something other than names; if the names of its columns come later, the text is read again
	index int    // index of a list's next element

	naming    bool   // the list holds names for the object around it
	heading   bool   // the list may contain the names of the columns of the lists after it
	named     []name // names read so far
	describes bool   // the object describes a column
	label     name   // name of a value, from the object that contains both
}

// enterColumns prepares the container c, which is opened in top; top is nil for the outermost container.
func (w *walker) enterColumns(top *container, c *container, at int) {
	c.columns.at = at
	switch {
	case c.object:
		c.columns.names = w.late[at]
		if top != nil && !top.object {
			if top.columns.naming {
				c.columns.describes = true
			} else if top.columns.names != nil {
				c.columns.names, c.columns.inRow = top.columns.names, true
				if top.columns.inRow {
					w.at.parent |= top.cell().words
				}
			}
		}
	case top == nil:
	case top.object:
		if w.at.key.role&namesColumns != 0 && !top.columns.inRow {
			c.columns.naming = true
			return
		}
		c.columns.names, c.columns.inRow = top.columns.names, top.columns.inRow
		top.columns.lists = true
	case top.columns.names != nil:
		c.columns.names, c.columns.inRow = top.columns.names, true
	case top.columns.index == 0:
		c.columns.heading = true
	}
}

// leaveColumns ends the container c and passes the names in c to top, the container around c. If top is an object with lists before the names of
// their columns, the text is read again.
func (w *walker) leaveColumns(top, c *container) {
	if top == nil {
		return
	}
	switch {
	case c.columns.describes:
		top.columns.named = append(top.columns.named, c.columns.label)
	case c.columns.naming && len(c.columns.named) > 0 && len(c.columns.named) <= maxColumns && top.columns.names == nil:
		top.columns.names = c.columns.named
		if top.columns.lists && w.late == nil {
			w.again = true
		}
		if w.again {
			w.found = append(w.found, heading{top.columns.at, c.columns.named})
		}
	case c.columns.heading && len(c.columns.named) > 0 && len(c.columns.named) == c.columns.index+1 && c.columns.index < maxColumns:
		top.columns.names = c.columns.named
	}
}

// heading holds the names of the columns of an object that begins at an offset.
type heading struct {
	at    int
	names []name
}

// cell returns the name of the next element's column.
func (c *container) cell() name {
	if c.columns.index < len(c.columns.names) {
		return c.columns.names[c.columns.index]
	}
	return name{}
}

// place returns the surroundings of the next value, a string or a number. If the value may be the name of a column, place records it.
func (w *walker) place(text string, isString bool) surroundings {
	at := w.at
	if len(w.stack) == 0 {
		return at
	}
	top := &w.stack[len(w.stack)-1]
	switch c := &top.columns; {
	case top.object && isString && len(text) <= maxName && c.label == name{} && at.key.role&namesValue != 0:
		c.label = w.names.name(text)
	case top.object:
	case c.names != nil:
		if cell := top.cell(); cell != (name{}) {
			at.key = cell
		}
	case c.naming || c.heading:
		if !isString || len(text) > maxName || text != "" && isDigit(text[0]) {
			c.heading = false
			if c.naming {
				c.named = append(c.named, name{})
			}
			break
		}
		c.named = append(c.named, w.names.name(text))
	}
	return at
}
