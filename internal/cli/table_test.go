//go:build unix

package cli

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
)

// TestTables shows lists at terminals of 80 and 120 columns. Ids stay whole, times are as long as there is room for, and no line is too long. Without a
// terminal, nothing is shortened.
func TestTables(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.Local)
	const runID, otherID, program = "run_0123456789abcdef0123", "apr_0123456789abcdef0123", "const rows = await tools.database.query({query: '東京都の売上'}); return rows.length"
	for _, c := range []struct {
		name    string
		columns int
		short   bool
		header  string
		rows    []string
		want    []string
	}{
		{"runs", 80, true, "RUN\tSTARTED\tSTATUS\tCALLS\tMS\tPROGRAM", []string{
			runID + "\t2026-11-27 09:48:54\tsucceeded\t3\t12.5\t" + program,
			runID + "\t2026-11-26 09:48:54\twaiting_approval\t120\t100012.5\t" + program,
			runID + "\t2025-11-26 09:48:54\tfailed (TypeError)\t0\t0.1\t東京都の売上東京都の売上東京都の売上",
		}, []string{
			"RUN                       STARTED     STATUS      CALLS  MS        PROGRAM",
			runID + "  09:48       succeeded   3      12.5      const rows …",
			runID + "  Nov 26      waiting_a…  120    100012.5  const rows …",
			runID + "  2025-11-26  failed (T…  0      0.1       東京都の売…",
		}},
		{"runs", 120, true, "RUN\tSTARTED\tSTATUS\tCALLS\tMS\tPROGRAM", []string{
			runID + "\t2026-11-27 09:48:54\tsucceeded\t3\t12.5\t東京都の売上東京都の売上東京都の売上",
		}, []string{
			"RUN                       STARTED              STATUS     CALLS  MS    PROGRAM",
			runID + "  2026-11-27 09:48:54  succeeded  3      12.5  東京都の売上東京都の売上東京都の売上",
		}},
		{"approvals", 80, true, "APPROVAL\tCREATED\tSTATUS\tUSER\tCALLS\tFIRST", []string{
			otherID + "\t2026-11-27 09:48:54\twaiting\tlocal\t1\tmailer__send {\"to\":\"[EMAIL_1]\"}",
			otherID + "\t2026-11-20 09:48:54\twaiting\t東京都の人々と人々\t1\tmailer__send {}",
		}, []string{
			"APPROVAL                  CREATED  STATUS   USER            CALLS  FIRST",
			otherID + "  09:48    waiting  local           1      mailer__sen…",
			otherID + "  Nov 20   waiting  東京都の人々…   1      mailer__sen…",
		}},
		{"sessions", 80, false, "SESSION\tUSER\tUSED\tTASKS\tEXPIRES", []string{
			"sess_0123456789abcdef0123\tlocal\t2026-11-26 09:48:54\t2\t2026-12-27 09:48:54",
		}, []string{
			"SESSION                    USER   USED          TASKS  EXPIRES",
			"sess_0123456789abcdef0123  local  Nov 26 09:48  2      Dec 27 09:48",
		}},
		{"judgements", 80, false, "RUN\tCALL\tREQUEST\tBECAUSE", []string{ // an id in a middle column stays whole
			runID + "\t1\t" + otherID + "\tno rule is about it",
		}, []string{
			"RUN                       CALL  REQUEST                   BECAUSE",
			runID + "  1     " + otherID + "  no rule is about it",
		}},
		{"tools", 80, true, "", []string{
			"crm__search\tFinds customers.",
			"n8n-workflows__a_tool_with_a_name_that_is_much_longer_than_others_are\tDoes something that takes many words.",
		}, []string{
			"crm__search                                            Finds customers.",
			"n8n-workflows__a_tool_with_a_name_that_is_much_longer_than_others_are",
			"                                                       Does something that tak…",
		}},
	} {
		for _, columns := range []int{c.columns, 0} {
			lines := shownTable(t, columns, now, c.short, c.header, c.rows)
			if columns == 0 {
				for i, row := range c.rows {
					line := lines[len(lines)-len(c.rows)+i]
					for cell := range strings.SplitSeq(row, "\t") {
						if !strings.Contains(line, cell) {
							t.Errorf("%s without a terminal: no %q in %q", c.name, cell, line)
						}
					}
				}
				continue
			}
			if got, want := strings.Join(lines, "\n"), strings.Join(c.want, "\n"); got != want {
				t.Errorf("%s at %d columns, got\n%s\nwant\n%s", c.name, columns, got, want)
			}
			for _, line := range lines {
				if ansi.StringWidth(line) >= columns {
					t.Errorf("%s at %d columns: a line has %d: %s", c.name, columns, ansi.StringWidth(line), line)
				}
			}
		}
	}
}

// shownTable returns the lines of a list at a terminal with the given number of columns; 0 means no terminal.
func shownTable(t *testing.T, columns int, now time.Time, short bool, header string, rows []string) []string {
	t.Helper()
	var text strings.Builder
	a := &app{World: World{Now: func() time.Time { return now }}, flags: &globals{}}
	list := func(w io.Writer) {
		a.stdout = newConsole(w, &screen{}, func(string) string { return "" })
		if err := a.list(nil, len(rows), "", header, short, func(i int) string { return rows[i] }); err != nil {
			t.Error(err)
		}
	}
	if columns == 0 {
		list(&text)
	} else {
		keyboard, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer keyboard.Close()
		if err := pty.Setsize(keyboard, &pty.Winsize{Cols: uint16(columns), Rows: 50}); err != nil {
			t.Fatal(err)
		}
		read := make(chan struct{})
		go func() { // ends when the other side of the terminal is closed
			defer close(read)
			_, _ = io.Copy(&text, keyboard)
		}()
		list(tty)
		tty.Close()
		<-read
	}
	return strings.Split(strings.TrimRight(strings.ReplaceAll(text.String(), "\r\n", "\n"), "\n"), "\n")
}
