// Waiting by reading the clock, which stands still while the program computes.
// limit: compute
// wants: error timeout
const end = Date.now() + 1e7
while (Date.now() < end) {}
