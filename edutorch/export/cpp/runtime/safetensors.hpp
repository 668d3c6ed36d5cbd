// Weights: a file of tensors: the length of a header, the header (JSON: a dtype, a shape and two
// offsets for each name), the elements.
class Weights {
 public:
  explicit Weights(const std::string& path) : path_(path) {
    std::ifstream file(path, std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::uint64_t length = 0;
    if (!file || all.size() < 8) fail("the file cannot be read");
    std::memcpy(&length, all.data(), 8);  // little-endian, as the machines that this runs on
    if (length > all.size() - 8) fail("the header is longer than the file");
    header_ = all.substr(8, static_cast<std::size_t>(length));
    bytes_ = all.substr(8 + static_cast<std::size_t>(length));
  }

  // Returns a tensor; its dtype ("F32") and its shape have to be these.
  template <class T>
  Tensor<T> take(const std::string& name, const char* dtype, const Shape& shape) const {
    const std::size_t start = header_.find("\"" + name + "\":{");
    if (start == std::string::npos) fail("it has no tensor " + name);
    const std::string entry = header_.substr(start, header_.find('}', start) - start);
    if (entry.find("\"dtype\":\"" + std::string(dtype) + "\"") == std::string::npos) {
      fail(name + " is not of the dtype " + dtype);
    }
    const Shape found = numbers(entry, "\"shape\":[");
    if (!(found == shape)) fail(name + " has the shape " + text(found) + ", not " + text(shape));
    const Shape range = numbers(entry, "\"data_offsets\":[");
    const Index wanted = shape.count() * static_cast<Index>(sizeof(T));
    if (range.rank != 2 || range[0] < 0 || range[1] - range[0] != wanted ||
        range[1] > static_cast<Index>(bytes_.size())) {
      fail(name + " lies outside of the file");
    }
    Tensor<T> tensor(shape);
    if (wanted > 0) {
      std::memcpy(tensor.data(), bytes_.data() + range[0], static_cast<std::size_t>(wanted));
    }
    return tensor;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw std::runtime_error(path_ + ": " + reason);
  }

  Shape numbers(const std::string& entry, const std::string& key) const {
    std::size_t place = entry.find(key);
    if (place == std::string::npos) fail("the header lacks " + key);
    place += key.size();
    Shape result;
    while (place < entry.size() && entry[place] != ']') {
      std::size_t end = place;
      Index number = 0;
      for (; end < entry.size() && entry[end] >= '0' && entry[end] <= '9'; ++end) {
        if (number > (std::numeric_limits<Index>::max() - 9) / 10) fail("a number is too large");
        number = number * 10 + (entry[end] - '0');
      }
      if (end == place) fail("the header is not understood");
      result.push(number);
      place = end < entry.size() && entry[end] == ',' ? end + 1 : end;
    }
    return result;
  }

  std::string path_, header_, bytes_;
};

// WeightsWriter: writes tensors as a file of safetensors.
class WeightsWriter {
 public:
  template <class T>
  void add(const std::string& name, const char* dtype, const Tensor<T>& tensor) {
    const std::size_t start = bytes_.size();
    const std::size_t size = static_cast<std::size_t>(tensor.count()) * sizeof(T);
    bytes_.append(reinterpret_cast<const char*>(tensor.data()), size);
    std::string shape;
    for (Index axis = 0; axis < tensor.shape.rank; ++axis) {
      shape += (axis == 0 ? "" : ",") + std::to_string(tensor.shape[axis]);
    }
    header_ += std::string(header_.empty() ? "" : ",") + "\"" + name + "\":{\"dtype\":\"" + dtype +
               "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(start) + "," +
               std::to_string(bytes_.size()) + "]}";
  }

  void write(const std::string& path) const {
    std::string header = "{" + header_ + "}";
    header.append((8 - header.size() % 8) % 8, ' ');
    const std::uint64_t length = header.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), 8);
    file << header << bytes_;
    if (!file) throw std::runtime_error(path + ": the file cannot be written");
  }

 private:
  std::string header_, bytes_;
};
