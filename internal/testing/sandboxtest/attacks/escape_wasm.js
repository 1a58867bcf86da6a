// Machine code of the program's own, and memory that it shares with a thread.
// wants: value ["undefined","undefined","undefined"]
return [eval('typeof WebAssembly'), eval('typeof SharedArrayBuffer'), eval('typeof Atomics')]
