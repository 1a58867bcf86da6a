// More lines than there may be.
for (let i = 0; ; i++) console.log(i)
