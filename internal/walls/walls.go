// Package walls has what packages jail and confine build the walls of the operating system with: filters of system calls, rules of Landlock, and a
// root directory of its own. Which of them a process gets, and what they let it do, is theirs. It is for Linux only.
package walls
