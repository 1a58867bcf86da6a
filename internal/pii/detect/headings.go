package detect

import "strings"

// headings finds the heading of the column that contains an offset. In a table, the first line has the names of the columns. The fields of a table
// are separated by commas, semicolons, tabs or bars, or aligned by spaces. In SQL, a list of columns before VALUES has the names. headings reads a
// text only once, from its start on, so the offsets must be passed in ascending order.
type headings struct {
	line, next int  // start of the line that was read last, and of the next one
	tries      int  // number of further lines of the paragraph that may be its heading
	head       head // head of the paragraph; without fields if the paragraph has no head
	at         int  // offset in the text up to which the fields of the line have been counted
	field      int  // field that contains at
	quoted     bool // whether at is in a quoted field
	fields     int  // number of fields of the line; 0 until it is needed

	spellings [2]int // end of the next VALUES, and end of the next values in lower case; -1 if there is none
	values    struct {
		columns []mask
		list    int // end of the list of columns that is still to be read; 0 if there is none
		at      int
		depth   int
		column  int
		quote   byte
	}
}

// head is the heading of a table.
type head struct {
	start     int
	separator byte // 0 if the fields are aligned by spaces
	fields    []field
}

// field is a name in a heading.
type field struct {
	start, end int // range of the name in its line
	mask       mask
}

const (
	maxHeadingTries = 5    // maximum number of lines in which the heading of a paragraph is looked for; a title may be first
	maxHeading      = 4096 // maximum bytes of the line of a heading, and of the text before VALUES in which its columns are looked for
	maxHeadingName  = 48
	maxColumns      = 512
)

// over returns the meaning of the heading above the number from start to end.
func (h *headings) over(text string, start, end int) mask {
	return h.overLine(text, start, end) | h.overTuple(text, start)
}

func (h *headings) overLine(text string, start, end int) mask {
	for h.next <= start {
		h.readLine(text)
	}
	if len(h.head.fields) == 0 || h.head.start == h.line {
		return 0
	}
	line := text[h.line:max(h.line, min(len(text), h.next)-1)]
	switch {
	case len(h.head.fields) == 1:
		if strings.TrimSpace(line) == text[start:end] || strings.Trim(line, " \t\r\"'.0") == strings.Trim(text[start:end], "0") {
			return h.head.fields[0].mask
		}
		return 0
	case h.head.separator == 0:
		for _, f := range h.head.fields {
			if f.start == start-h.line || f.end == end-h.line {
				return f.mask
			}
		}
		return 0
	}
	if h.fields == 0 {
		h.fields = 1 + countFields(line, h.head.separator, &h.quoted)
		h.quoted = false
	}
	if h.fields != len(h.head.fields) {
		return 0
	}
	h.field += countFields(text[h.at:start], h.head.separator, &h.quoted)
	h.at = start
	return h.head.fields[min(h.field, len(h.head.fields)-1)].mask
}

// countFields counts the separators that are not in quotes.
func countFields(text string, separator byte, quoted *bool) (n int) {
	for i := range len(text) {
		switch {
		case text[i] == '"':
			*quoted = !*quoted
		case text[i] == separator && !*quoted:
			n++
		}
	}
	return n
}

// readLine reads the next line. An empty line ends a table.
func (h *headings) readLine(text string) {
	h.line = h.next
	h.next = len(text) + 1
	if n := strings.IndexByte(text[h.line:], '\n'); n >= 0 {
		h.next = h.line + n + 1
	}
	h.at, h.field, h.quoted, h.fields = h.line, 0, false, 0
	switch line := text[h.line : h.next-1]; {
	case strings.TrimSpace(line) == "":
		h.head, h.tries = head{}, maxHeadingTries
	case h.line == 0:
		h.tries = maxHeadingTries
		fallthrough
	case h.tries > 0:
		h.tries--
		if fields, separator := readHeading(line); len(fields) > 0 {
			h.head, h.tries = head{h.line, separator, fields}, 0
		}
	}
}

// readHeading returns the names in a line and their separator, if the line contains only names.
func readHeading(line string) (fields []field, separator byte) {
	if len(line) > maxHeading {
		return nil, 0
	}
	most := 0
	for _, c := range []byte("\t|;,") {
		if n := strings.Count(line, string(c)); n > most {
			most, separator = n, c
		}
	}
	about := mask(0)
	for start := 0; start <= len(line); {
		end := len(line)
		if separator != 0 {
			if n := strings.IndexByte(line[start:], separator); n >= 0 {
				end = start + n
			}
		} else {
			for start < len(line) && (line[start] == ' ' || line[start] == '\r') {
				start++
			}
			if n := strings.IndexAny(line[start:], " \r"); n >= 0 {
				end = start + n
			}
		}
		name := strings.Trim(line[start:end], " \t\r\"'`*")
		if len(name) > maxHeadingName || len(fields) == maxColumns || name != "" && isDigit(name[0]) || strings.ContainsAny(name, ":={}[]<>!?@\\$;") {
			return nil, 0
		}
		if meaning := words(name); name != "" || separator != 0 {
			fields = append(fields, field{start, end, meaning})
			about |= meaning
		}
		start = end + 1
	}
	if about == 0 {
		return nil, 0
	}
	return fields, separator
}

// overTuple returns the meaning of the column to which a value after VALUES belongs.
func (h *headings) overTuple(text string, start int) mask {
	v := &h.values
	for {
		first := -1
		for i, spelling := range [...]string{"VALUES", "values"} {
			if at := &h.spellings[i]; *at >= 0 && *at <= v.at {
				if n := strings.Index(text[v.at:], spelling); n >= 0 {
					*at = v.at + n + len(spelling)
				} else {
					*at = -1
				}
			}
			if at := h.spellings[i]; at > 0 && at <= start && (first < 0 || at < first) {
				first = at
			}
		}
		if first < 0 || first <= v.at {
			break
		}
		v.at, v.depth, v.column, v.quote = first, 0, 0, 0
		v.list, v.columns = first-len("VALUES"), nil
	}
	if v.list > 0 {
		v.columns, v.list = columnsBefore(text, v.list), 0
	}
	if v.columns == nil {
		return 0
	}
	for ; v.at < start; v.at++ {
		switch c := text[v.at]; {
		case v.quote != 0:
			if c == v.quote {
				v.quote = 0
			}
		case c == '\'' || c == '"':
			v.quote = c
		case c == '(':
			if v.depth++; v.depth == 1 {
				v.column = 0
			}
		case c == ')':
			v.depth--
		case c == ',' && v.depth == 1:
			v.column++
		case c == ';' && v.depth == 0:
			v.columns = nil
			return 0
		}
	}
	if v.depth != 1 || v.column >= len(v.columns) {
		return 0
	}
	return v.columns[v.column]
}

// columnsBefore returns the meanings of the columns in the parentheses that end before an offset.
func columnsBefore(text string, end int) (columns []mask) {
	before := strings.TrimRight(text[max(0, end-maxHeading):end], " \t\r\n")
	open := strings.LastIndexByte(before, '(')
	if !strings.HasSuffix(before, ")") || open < 0 || strings.Count(before[open:], ")") > 1 {
		return nil
	}
	for _, name := range strings.Split(before[open+1:len(before)-1], ",") {
		if len(columns) < maxColumns {
			columns = append(columns, words(strings.Trim(name, " \t\r\n\"'`[]")))
		}
	}
	return columns
}
