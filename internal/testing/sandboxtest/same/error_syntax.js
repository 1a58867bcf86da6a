// A program that is none.
return 1 +
