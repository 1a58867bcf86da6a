package guest_test
import ("testing";"mcp-code-exec-harness/internal/frame")
func TestZZ(t *testing.T){ r:=openWasm(t)
 for _,c:=range []string{"callMCPTool('a'); return 1"} {
 r.send(start(wrap(c)))
 for { f,err:=r.receive(); if err!=nil {t.Fatal(err)}; if f.T==frame.Call { r.send(&frame.Frame{T:frame.Answer,Run:"run_1",ID:f.ID,Now:startTime+5,Error:&frame.Error{Name:"ToolError",Message:"no"}}) }; if f.T==frame.Done { t.Log(c,f.Error,string(f.Value)); r.reset(); break } } } }
