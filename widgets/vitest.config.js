export default { test: { environment: "jsdom", include: ["tests/*.test.js"] } };
