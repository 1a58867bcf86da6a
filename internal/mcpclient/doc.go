// Package mcpclient holds the connections to upstream MCP servers: it starts them, lists and caches their tools,
// calls the tools and restarts what breaks. It knows nothing of policy, PII, journals or guests.
//
// The protocol is spoken by the official Go SDK, versions 2024-10-07 to 2026-07-28, over stdio, streamable HTTP and
// the HTTP+SSE transport of old servers. What the SDK decodes into maps (schemas, results) is taken from the wire
// instead, so that key order and large numbers stay as the server wrote them. What the official clients for TypeScript and Python
// accept is accepted.
//
// A call goes [Manager.Call], server.request, server.try, the SDK's session, link.Write and a carrier, such as stdio.send. Its answer comes by
// the carrier's reader, link.deliver and exchange.answered, which keeps it and gives the SDK an empty one.
//
// # Life cycle
//
//  1. [NewManager], [Manager.Add]: nothing is started; tool lists come from the disk cache where there is one.
//  2. The first call, [Manager.Connect], [Manager.EnsureTools] or [Manager.Start] starts a server, once however many
//     callers ask. Tools are listed again whenever the server connects, and when it says that they changed: at most once
//     a second, and down to every 30 s while the notifications go on.
//  3. What goes wrong with a call fails that call with a [CallError]. Over HTTP nothing that a server says to a call ends
//     the connection: the SDK gets to see only what it expects. Where a server has forgotten the session, new calls get
//     a new connection at once, and calls in flight end on the old one.
//  4. A connection that breaks fails the calls it carried, and nothing else. The next call after a backoff (0.5 s
//     doubling to 30 s, with jitter, forgotten after 60 s of health) connects again, under a new connection number.
//  5. [Manager.Remove] ends a server, at any time; [Manager.Close] ends every server and every goroutine.
//
// # What a server can cost
//
// A server is not trusted: it harms its own tools only. A message above Options.MaxResult fails its call and is not kept.
// Answers that are being read or used are charged to CallOptions.User until they are released: four of the largest size
// for an owner, eight for all. Over HTTP an answer waits for the budget, until its call's timeout; on a stream that all
// calls share the call fails instead. A server that sends more than 1,000 messages a second that nothing asked for, or
// 1 MiB a second on stderr, is disconnected; on a stream that belongs to one call only that call fails.
//
// The handshake takes at most 1 MiB, a list of tools 16 MiB on 1,000 pages, 20,000 tools and 1 MiB for one of them, a
// result 10,000 blocks, and JSON nests at most 1,000 levels. What it says by itself is dropped but for progress, of which
// a slow caller misses some, changed tools, and requests, of which 256 may be open. Sampling, elicitation and
// roots are not offered. Text meant for people is cut.
//
// # What happens to child processes
//
// A stdio server runs in a process group of its own. It is ended by closing its stdin, then (0.5 s later) SIGTERM to
// the group, then (2 s later) SIGKILL; its group ends with it also when it exits by itself. What each system
// guarantees beyond that:
//
//   - Linux: a supervisor (this binary again, [Supervise]) is parent and subreaper of the server, so it finds every
//     descendant, also one that left the process group (setsid) or whose parent (npx) is gone. It holds one end of a
//     pipe whose other end only the harness has: when the harness dies, by whatever signal, the pipe ends and the
//     supervisor ends all descendants as above. This does not depend on PDEATHSIG, which a kernel ties to the thread
//     that forked and not to the process. Should the supervisor itself be killed, the server gets SIGKILL by
//     PDEATHSIG, and the harness, if alive, kills its group. Only both killed at once, and a grandchild that also
//     ignores the end of its stdin, leaves that grandchild alive.
//   - macOS and other unix: the same supervisor and pipe; there is no subreaper, so a descendant that left the
//     process group is not found, and no PDEATHSIG, so if harness and supervisor are both killed with SIGKILL at once
//     the server sees only the end of its stdin.
//   - Windows: the server and all its descendants are in a job object with KILL_ON_JOB_CLOSE whose only handle is
//     held by the harness: the kernel ends them with it. There is no SIGTERM; a server that does not exit when its
//     stdin closes is terminated after 2.5 s.
package mcpclient
