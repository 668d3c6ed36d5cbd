// along: a function of each row of elements along an axis: function(in, out, length).
template <class T, class F>
Tensor<T> along(const Tensor<T>& x, Index dim, F function) {
  if (x.shape.rank == 0) return reshape(along(reshape(x, {1}), 0, function), {});
  const Index last = x.shape.rank - 1, length = x.shape[in_order(dim, x.shape.rank)];
  const Tensor<T> rows = in_order(dim, x.shape.rank) == last ? x : transpose(x, dim, last);
  Tensor<T> result(rows.shape);
  const Index count = length == 0 ? 0 : rows.count() / length;
  for (Index row = 0; row < count; ++row) {
    function(rows.data() + row * length, result.data() + row * length, length);
  }
  return in_order(dim, x.shape.rank) == last ? result : transpose(result, dim, last);
}

// softmax: exp(x) / Σ exp(x) along an axis.
template <class T>
Tensor<T> softmax(const Tensor<T>& x, Index dim) {
  return along(x, dim, [](const T* in, T* out, Index length) {
    const T largest = *std::max_element(in, in + length);
    T total = 0;
    for (Index i = 0; i < length; ++i) total += out[i] = std::exp(in[i] - largest);
    for (Index i = 0; i < length; ++i) out[i] /= total;
  });
}

// log_softmax: the logarithm of softmax.
template <class T>
Tensor<T> log_softmax(const Tensor<T>& x, Index dim) {
  return along(x, dim, [](const T* in, T* out, Index length) {
    const T largest = *std::max_element(in, in + length);
    T total = 0;
    for (Index i = 0; i < length; ++i) total += std::exp(in[i] - largest);
    const T shift = largest + std::log(total);
    for (Index i = 0; i < length; ++i) out[i] = in[i] - shift;
  });
}

// layer_norm: mean 0 and variance 1 over the last axes, then scaled and shifted.
template <class T>
Tensor<T> layer_norm(const Tensor<T>& x, const Tensor<T>& weight, const Tensor<T>& bias,
                     Index axes, double eps) {
  const Index length = last_sizes(x.shape, axes).count();
  Tensor<T> result(x.shape);
  for (Index row = 0; length > 0 && row < x.count() / length; ++row) {
    const T* in = x.data() + row * length;
    T* out = result.data() + row * length;
    double mean = 0, variance = 0;
    for (Index i = 0; i < length; ++i) mean += static_cast<double>(in[i]);
    mean /= static_cast<double>(length);
    for (Index i = 0; i < length; ++i) {
      const double offset = static_cast<double>(in[i]) - mean;
      variance += offset * offset;
    }
    const double scale = 1 / std::sqrt(variance / static_cast<double>(length) + eps);
    for (Index i = 0; i < length; ++i) {
      double value = (static_cast<double>(in[i]) - mean) * scale;
      if (weight) value *= static_cast<double>(weight.data()[i]);
      if (bias) value += static_cast<double>(bias.data()[i]);
      out[i] = static_cast<T>(value);
    }
  }
  return result;
}

// batch_norm: the normalized values, and the mean and the variance of each channel.
template <class T>
std::tuple<Tensor<T>, Tensor<T>, Tensor<T>> batch_norm(const Tensor<T>& x, const Tensor<T>& weight,
                                                       const Tensor<T>& bias, double eps) {
  const Index batch = x.size(0), channels = x.size(1);
  const Index size = batch * channels == 0 ? 0 : x.count() / (batch * channels);
  Tensor<T> result(x.shape), means(Shape{channels}), variances(Shape{channels});
  for (Index channel = 0; channel < channels; ++channel) {
    const double count = static_cast<double>(batch * size);
    double mean = 0, variance = 0;
    for (Index i = 0; i < batch * size; ++i) {
      mean += static_cast<double>(x.data()[(i / size * channels + channel) * size + i % size]);
    }
    mean /= count;
    for (Index i = 0; i < batch * size; ++i) {
      const Index place = (i / size * channels + channel) * size + i % size;
      const double offset = static_cast<double>(x.data()[place]) - mean;
      variance += offset * offset;
    }
    variance /= count;
    const double scale = (weight ? static_cast<double>(weight.data()[channel]) : 1.0) /
                         std::sqrt(variance + eps);
    const double shift = bias ? static_cast<double>(bias.data()[channel]) : 0.0;
    for (Index i = 0; i < batch * size; ++i) {
      const Index place = (i / size * channels + channel) * size + i % size;
      const double offset = static_cast<double>(x.data()[place]) - mean;
      result.data()[place] = static_cast<T>(offset * scale + shift);
    }
    means.data()[channel] = static_cast<T>(mean);
    variances.data()[channel] = static_cast<T>(variance);
  }
  return {result, means, variances};
}

// attention: softmax(scale · q kᵀ) v; `is_causal` hides what comes later.
template <class T>
Tensor<T> attention(const Tensor<T>& query, const Tensor<T>& key, const Tensor<T>& value,
                    double scale, bool is_causal) {
  Tensor<T> scores = matmul(query, transpose(key, -2, -1));
  const Index rows = scores.shape[scores.shape.rank - 2], columns = scores.shape[scores.shape.rank - 1];
  for (Index i = 0; i < scores.count(); ++i) {
    const bool is_hidden = is_causal && i % columns > i / columns % rows;
    T& score = scores.data()[i];
    score = is_hidden ? -std::numeric_limits<T>::infinity() : static_cast<T>(scale) * score;
  }
  return matmul(softmax(scores, -1), value);
}

// sigmoid_of: 1 / (1 + exp(-x)).
template <class T>
T sigmoid_of(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

// Steps: the parts of a recurrent network that all sorts of cells share.
template <class T>
struct Steps {
  Index times, batch, units, width;
  std::vector<T> weight, hidden, inner;

  Steps(const Tensor<T>& x, const Tensor<T>& h, const Tensor<T>& w)
      : times(x.size(0)), batch(x.size(1)), units(h.size(1)), width(x.size(2)),
        weight(transposed(w.data(), width, units)), hidden(h.data(), h.data() + h.count()),
        inner(static_cast<std::size_t>(batch * width)) {}

  // Puts w · h, and a bias, into `inner`.
  void multiply(const T* bias) {
    for (Index row = 0; row < batch; ++row) {
      T* out = inner.data() + row * width;
      if (bias == nullptr) std::fill_n(out, width, T(0));
      else std::copy_n(bias, width, out);
    }
    product(hidden.data(), weight.data(), inner.data(), batch, units, width);
  }
};

// lstm: the states h and c of an LSTM after each time, (2, times, batch, units), and its gates.
template <class T>
std::tuple<Tensor<T>, Tensor<T>> lstm(const Tensor<T>& x, const Tensor<T>& h, const Tensor<T>& c,
                                      const Tensor<T>& weight, bool reverse) {
  Steps<T> steps(x, h, weight);
  const Index units = steps.units, all = steps.times * steps.batch * units;
  Tensor<T> result(Shape{2, steps.times, steps.batch, units}), gates(x.shape);
  std::vector<T> cell(c.data(), c.data() + c.count());
  for (Index step = 0; step < steps.times; ++step) {
    const Index time = reverse ? steps.times - 1 - step : step;
    steps.multiply(nullptr);
    for (Index row = 0; row < steps.batch; ++row) {
      const Index at = (time * steps.batch + row) * steps.width;
      T* gate = gates.data() + at;
      for (Index j = 0; j < steps.width; ++j) {
        gate[j] = x.data()[at + j] + steps.inner.data()[row * steps.width + j];
      }
      for (Index k = 0; k < units; ++k) {
        T& state = cell.data()[row * units + k];
        state = sigmoid_of(gate[units + k]) * state +
                sigmoid_of(gate[k]) * std::tanh(gate[2 * units + k]);
        const T output = sigmoid_of(gate[3 * units + k]) * std::tanh(state);
        steps.hidden.data()[row * units + k] = output;
        result.data()[(time * steps.batch + row) * units + k] = output;
        result.data()[all + (time * steps.batch + row) * units + k] = state;
      }
    }
  }
  return {result, gates};
}

// gru: the state of a GRU after each time, (times, batch, units).
template <class T>
Tensor<T> gru(const Tensor<T>& x, const Tensor<T>& h, const Tensor<T>& weight,
              const Tensor<T>& bias, bool reverse) {
  Steps<T> steps(x, h, weight);
  const Index units = steps.units;
  Tensor<T> result(Shape{steps.times, steps.batch, units});
  for (Index step = 0; step < steps.times; ++step) {
    const Index time = reverse ? steps.times - 1 - step : step;
    steps.multiply(bias ? bias.data() : nullptr);
    for (Index row = 0; row < steps.batch; ++row) {
      const T* in = x.data() + (time * steps.batch + row) * steps.width;
      const T* inner = steps.inner.data() + row * steps.width;
      for (Index k = 0; k < units; ++k) {
        T& state = steps.hidden.data()[row * units + k];
        const T reset = sigmoid_of(in[k] + inner[k]);
        const T update = sigmoid_of(in[units + k] + inner[units + k]);
        const T fresh = std::tanh(in[2 * units + k] + reset * inner[2 * units + k]);
        state = fresh + update * (state - fresh);
        result.data()[(time * steps.batch + row) * units + k] = state;
      }
    }
  }
  return result;
}

// rnn: the state of an Elman network after each time.
template <class T>
Tensor<T> rnn(const Tensor<T>& x, const Tensor<T>& h, const Tensor<T>& weight, bool is_tanh,
              bool reverse) {
  Steps<T> steps(x, h, weight);
  Tensor<T> result(x.shape);
  for (Index step = 0; step < steps.times; ++step) {
    const Index time = reverse ? steps.times - 1 - step : step;
    steps.multiply(nullptr);
    for (Index i = 0; i < steps.batch * steps.units; ++i) {
      const Index at = time * steps.batch * steps.units + i;
      const T sum = x.data()[at] + steps.inner.data()[i];
      result.data()[at] = is_tanh ? std::tanh(sum) : std::max(sum, T(0));
      steps.hidden.data()[i] = result.data()[at];
    }
  }
  return result;
}

// class_of: the class of a sample, checked; -1 where it is to be left out.
inline Index class_of(Index number, Index classes, Index ignore_index) {
  if (number == ignore_index) return -1;
  if (number < 0 || number >= classes) {
    throw std::out_of_range("class " + std::to_string(number) + " of " + std::to_string(classes));
  }
  return number;
}

// total_weight: the sum of the weights of all samples' classes.
template <class T>
double total_weight(const Tensor<Index>& target, const Tensor<T>& weight, Index classes,
                    Index ignore_index) {
  double total = 0;
  for (Index i = 0; i < target.count(); ++i) {
    const Index number = class_of(target.data()[i], classes, ignore_index);
    if (number >= 0) total += weight ? static_cast<double>(weight.data()[number]) : 1.0;
  }
  return total;
}

// nll_losses: minus the log-probability of each sample's class: (n, c, …) and (n, …).
template <class T>
Tensor<T> nll_losses(const Tensor<T>& x, const Tensor<Index>& target, const Tensor<T>& weight,
                     Index ignore_index) {
  const Index axis = x.shape.rank == 1 ? 0 : 1, classes = x.size(axis);
  const Index inner = x.shape.strides_from(axis);
  Tensor<T> result(target.shape);
  for (Index i = 0; i < target.count(); ++i) {
    const Index number = class_of(target.data()[i], classes, ignore_index);
    if (number < 0) continue;
    const T loss = -x.data()[(i / inner * classes + number) * inner + i % inner];
    result.data()[i] = weight ? loss * weight.data()[number] : loss;
  }
  return result;
}

// nll_loss: the sum, or the average, of `nll_losses`.
template <class T>
Tensor<T> nll_loss(const Tensor<T>& x, const Tensor<Index>& target, const Tensor<T>& weight,
                   Index ignore_index, bool averages) {
  const Tensor<T> losses = nll_losses(x, target, weight, ignore_index);
  double total = 0;
  for (Index i = 0; i < losses.count(); ++i) total += static_cast<double>(losses.data()[i]);
  const Index classes = x.size(x.shape.rank == 1 ? 0 : 1);
  if (averages) total /= total_weight(target, weight, classes, ignore_index);
  return full<T>({}, static_cast<T>(total));
}

// nll_grad: the gradient of `nll_loss` by its input, of this shape.
template <class T>
Tensor<T> nll_grad(const Tensor<T>& g, const Tensor<Index>& target, const Tensor<T>& weight,
                   const Shape& shape, Index ignore_index, bool averages) {
  const Index axis = shape.rank == 1 ? 0 : 1, classes = shape[axis];
  const Index inner = shape.strides_from(axis);
  const double total = averages ? total_weight(target, weight, classes, ignore_index) : 1.0;
  Tensor<T> result(shape);
  for (Index i = 0; i < target.count(); ++i) {
    const Index number = class_of(target.data()[i], classes, ignore_index);
    if (number < 0) continue;
    const double factor = weight ? static_cast<double>(weight.data()[number]) : 1.0;
    const double own = static_cast<double>(g.data()[g.count() == 1 ? 0 : i]);
    const Index place = (i / inner * classes + number) * inner + i % inner;
    result.data()[place] = static_cast<T>(-own * factor / total);
  }
  return result;
}
