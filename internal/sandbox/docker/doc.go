// Package docker is the tier that executes programs with Node.js in containers, by the API of a Docker engine. A container executes one
// program; then it is killed and removed. The walls around it are those of the container: an unprivileged user, a read-only root, no
// network, a list of system calls without sockets and processes, limits on memory, processors, processes and files. With gVisor
// (runtime runsc) a kernel of its own stands between the container and the machine's.
//
// A container has no mount and no file of the harness: Node.js is started with a short script (bootstrap.cjs), which looks at the walls
// from within and then reads the runner from its standard input, the same that the process tier has. So any image with Node.js will do, and
// one image serves all versions of the harness. The harness attaches to the container before it starts it, and separates the engine's
// chunks of output and errors (runner.go). The image is known by its id from the start of the harness on: a tag that moves changes nothing
// in a running one.
//
// The limits that the kernel has for the container's group are read from version 2 of groups, or from version 1 where that is in use
// (TestGroups); what the engine made is also compared with what it was asked for (asFor). No limit, no program: a rootless engine on
// version 1 is refused.
//
// A container that ends by itself is asked why: its exit code, and whether the engine reports that the kernel killed it for its memory.
// Then it is removed, as one that is killed is, in the background, four at a time. It counts among sandbox.pool until the engine has
// removed it; a removal that fails is tried again. A connection that breaks is the end of its container. Containers have labels: the
// directory of their harness, and the process. A process holds the lock of a file in that directory, which ends with it, so that the next
// one sees whose containers are left, and removes them, also where process ids mean nothing, in containers and with engines elsewhere. A
// container ends when its standard input does, and a busy one by its limit of processor time.
package docker
