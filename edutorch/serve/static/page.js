// Sends what stands in a form as a request of the Open Inference Protocol, and shows the answer.

/** @param {HTMLFormElement} form */
async function run(form) {
  const result = form.querySelector(".result");
  try {
    const inputs = [...form.querySelectorAll("textarea")].map((field) => {
      const spec = JSON.parse(field.dataset.spec);
      const data = JSON.parse(field.value);
      return { ...spec, shape: shapeOf(data, spec.shape), data };
    });
    const started = performance.now();
    const answer = await fetch(`/v2/models/${form.dataset.model}/infer`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ inputs }),
    });
    const value = await answer.json();
    const time = (performance.now() - started).toFixed(1);
    const text = value.error ?? value.outputs.map(describe).join("\n");
    result.textContent = `${answer.status}, ${time} ms\n${text}`;
  } catch (error) {
    result.textContent = String(error);
  }
}

/** Nested lists have a shape of their own; a flat one has that of the example. */
function shapeOf(data, shape) {
  if (!Array.isArray(data[0])) return shape;
  const own = [];
  for (let part = data; Array.isArray(part); part = part[0]) own.push(part.length);
  return own;
}

function describe(output) {
  const numbers = output.data.slice(0, 100).map((x) => (typeof x === "number" ? +x.toPrecision(5) : x));
  return `${output.name} ${output.datatype} [${output.shape}]: ${numbers.join(", ")}`;
}

for (const form of document.querySelectorAll("form")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(form);
  });
}
