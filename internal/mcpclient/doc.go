// Package mcpclient manages the connections to upstream MCP servers: it starts the servers, lists and caches their tools,
// calls the tools and reconnects after failures. It knows nothing of policy, PII, journals or guests.
//
// The official Go SDK implements the protocol, versions 2024-11-05 to 2026-07-28, over stdio, streamable HTTP and
// the HTTP+SSE transport of old servers. A server with an older version is treated as one of 2024-11-05. The SDK decodes schemas
// and results into maps. The package therefore reads them from the wire itself, so that key order and large numbers stay as the
// server wrote them. It accepts what the official clients for TypeScript and Python accept.
//
// A call passes through [Manager.Call], server.request, server.try, the SDK's session, link.Write and a carrier, such as stdio.send. Its answer
// passes through the carrier's reader, link.deliver and exchange.answered, which keeps the answer and gives the SDK an empty one.
//
// # Life cycle
//
//  1. [NewManager] and [Manager.Add] start nothing; tool lists come from the disk cache if it has them.
//  2. The first call, [Manager.Connect], [Manager.EnsureTools] or [Manager.Start] starts a server, only once for any number
//     of concurrent callers. Tools are listed again whenever the server connects, and when it reports changed tools: at most
//     once a second, and only every 30 s if the notifications continue.
//  3. A problem of a call fails that call with a [CallError]. Over HTTP no answer to a call ends the connection: the SDK sees
//     only answers that it expects. If a server has forgotten the session, new calls get a new connection at once, and calls
//     in flight end on the old one.
//  4. A broken connection fails only the calls in flight on it. The next call after a backoff (0.5 s
//     doubling to 30 s, with jitter, reset after 60 s of health) connects again, under a new connection number.
//  5. [Manager.Remove] ends a server, at any time; [Manager.Close] ends every server and every goroutine.
//
// # Limits of a server
//
// A server is not trusted: it can harm its own tools only. A message larger than Options.MaxResult fails its call and is not kept.
// Answers that are being read or used are charged to CallOptions.User until they are released. The budget holds four answers of
// the largest size for one owner and eight for all. Over HTTP an answer waits for the budget, until its call's timeout; on a stream
// that all calls share, the call fails instead. A server that sends more than 1,000 unsolicited messages a second, or 1 MiB a
// second on stderr, is disconnected; on a stream that belongs to one call, only that call fails.
//
// The handshake may take at most 1 MiB, a tool list 16 MiB on 1,000 pages with 20,000 tools of 1 MiB each, and a result 10,000
// blocks. JSON may nest at most 1,000 levels deep. Unsolicited messages are dropped, except progress reports, notifications of changes
// and requests. A slow caller misses some progress reports. At most 256 requests of a server may be open. Sampling, elicitation and
// roots are not offered. Text meant for people is truncated.
//
// # What happens to child processes
//
// A stdio server runs in a process group of its own. To end it, the harness closes its stdin, sends SIGTERM to the group
// 0.5 s later, and SIGKILL 2 s after that. When the server exits by itself, the harness ends its group too. Each system
// guarantees more:
//
//   - Linux: a supervisor (a process of its own, package supervisor) is parent and subreaper of the server, so it finds
//     every descendant, even one that left the process group (setsid) or whose parent (npx) is gone. The supervisor holds one
//     end of a pipe; only the harness has the other end. When the harness dies, by any signal, the pipe closes and the
//     supervisor ends all descendants as above. This does not depend on PDEATHSIG, which the kernel ties to the thread
//     that forked and not to the process. If the supervisor itself is killed, the server gets SIGKILL by
//     PDEATHSIG, and the harness, if alive, kills the server's group. A grandchild survives only if harness and supervisor
//     are killed at once and the grandchild ignores the end of its stdin.
//   - macOS and other unix: the same supervisor and pipe. There is no subreaper, so a descendant that left the
//     process group is not found. There is no PDEATHSIG either, so if harness and supervisor are both killed with SIGKILL
//     at once, the server sees only the end of its stdin.
//   - Windows: the server and all its descendants are in a job object with KILL_ON_JOB_CLOSE. Only the harness holds
//     a handle of the job, so the kernel ends these processes when the harness ends. There is no SIGTERM; a server that does not exit when
//     its stdin closes is terminated after 2.5 s.
package mcpclient
