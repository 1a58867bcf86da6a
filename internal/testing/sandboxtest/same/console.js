// How console lines look.
console.log('%s is %d', 'n', 4, { a: [1, { b: 2 }] }, [undefined, null], new Map([[1, { x: 1 }]]))
console.error(new Set(['a']), Symbol('s'), 1n, -0, () => 1, class A {})
console.warn([1, , 3], 'x'.repeat(3), new Date(0))
console.table([{ a: 1, b: 2 }])
console.info(); console.debug({ toString: 1 }, Object.create(null))
