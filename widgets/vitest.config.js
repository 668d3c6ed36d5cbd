// One jsdom for all files: to make one for each would take most of the time.
export default { test: { environment: "jsdom", pool: "threads", isolate: false, include: ["tests/*.test.js"] } };
