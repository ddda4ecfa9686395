// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/files/gguf.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <map>

#include "frontend/decoders/files/gguf_blocks.h"
#include "frontend/model/model_file.h"
#include "ir/text/shown.h"
#include "ir/text/similar.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint32_t kFirstVersion = 2, kLastVersion = 3;
// A header's entries take memory: far more than any model has, and little.
constexpr std::uint64_t kMostKeys = 1 << 16, kMostTensors = 1 << 16, kMostValues = 1 << 21;
constexpr std::uint64_t kMostName = 65535, kMostTensorName = 1024, kMostDims = 4;
constexpr std::uint64_t kDefaultAlignment = 32, kMostAlignment = 1 << 20;

enum class Kind : std::uint32_t {
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kFloat32,
  kBool,
  kText,
  kArray,
  kUInt64,
  kInt64,
  kFloat64
};
constexpr std::uint32_t kKinds = 13;

/// Bytes of a value; 0: they vary.
std::size_t size_of_kind(Kind kind) {
  constexpr std::size_t kSizes[kKinds] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kSizes[static_cast<std::uint32_t>(kind)];
}

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Walks over a header; `field` names what is read in errors.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& what) : bytes_(bytes), what_(what) {}

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw invalid_model_error("'{}': {}", what_, fmt::format(format, std::forward<Args>(args)...));
  }

  std::size_t at() const { return at_; }
  std::size_t left() const { return bytes_.size() - at_; }
  const std::byte* here() const { return bytes_.data() + at_; }

  const std::byte* skip(std::uint64_t size, std::string_view field) {
    if (size > left())
      fail("{} takes {} bytes from byte {} on, but the file has {}: it is cut short or damaged",
           field, size, at_, bytes_.size());
    const std::byte* const from = bytes_.data() + at_;
    at_ += static_cast<std::size_t>(size);
    return from;
  }
  template <typename T>
  T number(std::string_view field) {
    return load<T>(skip(sizeof(T), field));
  }
  std::string_view text(std::string_view field, std::uint64_t most = UINT64_MAX) {
    const auto size = number<std::uint64_t>(field);
    if (size > most) fail("{} would have {} bytes; {} are the most", field, size, most);
    return {reinterpret_cast<const char*>(skip(size, field)), static_cast<std::size_t>(size)};
  }
  Kind kind(std::string_view field) {
    const auto kind = number<std::uint32_t>(field);
    if (kind >= kKinds) fail("{} is of the unknown type {}", field, kind);
    return static_cast<Kind>(kind);
  }
  /// A number of things, each of which takes `least` bytes of the file.
  std::uint64_t count(std::string_view field, std::uint64_t least, std::uint64_t most) {
    const auto count = number<std::uint64_t>(field);
    if (count > most) fail("{} is {}; {} is the most", field, count, most);
    if (count > left() / least)
      fail("{} is {}, but the file has only {} more bytes", field, count, left());
    return count;
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& what_;
  std::size_t at_ = 0;
};

struct Key {
  std::string_view name;
  Kind kind = Kind::kUInt8, element = kind;  // of an array: that of its elements
  const std::byte* from = nullptr;           // the value, or the first element
  std::uint64_t count = 1;
};

struct Info {
  std::string_view name;
  const BlockType* type = nullptr;
  std::vector<std::int64_t> shape;  // row-major
  std::uint64_t offset = 0, length = 0;
  std::span<const std::byte> bytes;
};

std::int64_t as_integer(Kind kind, const std::byte* at) {
  switch (kind) {
    case Kind::kUInt8: return load<std::uint8_t>(at);
    case Kind::kInt8: return load<std::int8_t>(at);
    case Kind::kUInt16: return load<std::uint16_t>(at);
    case Kind::kInt16: return load<std::int16_t>(at);
    case Kind::kUInt32: return load<std::uint32_t>(at);
    case Kind::kInt32: return load<std::int32_t>(at);
    default: return load<std::int64_t>(at);
  }
}

double as_double(Kind kind, const std::byte* at) {
  return kind == Kind::kFloat32 ? load<float>(at) : load<double>(at);
}

bool is_real(Kind kind) { return kind == Kind::kFloat32 || kind == Kind::kFloat64; }

std::string_view text_at(const std::byte*& at) {
  const auto size = static_cast<std::size_t>(load<std::uint64_t>(at));
  at += sizeof(std::uint64_t);
  const std::string_view text(reinterpret_cast<const char*>(at), size);
  at += size;
  return text;
}

/// Values or texts one after another, which have been checked.
template <typename T, typename Read>
std::vector<T> list_of(const Key& key, const Read& read) {
  std::vector<T> list;
  list.reserve(static_cast<std::size_t>(key.count));
  const std::byte* at = key.from;
  for (std::uint64_t i = 0; i < key.count; ++i) list.push_back(read(at));
  return list;
}

template <typename Read>
auto of_size(Kind kind, const Read& read) {
  return [kind, read](const std::byte*& at) {
    const auto value = read(kind, at);
    at += size_of_kind(kind);
    return value;
  };
}

bool as_bool(Kind, const std::byte* at) { return *at != std::byte{0}; }

class MappedGguf final : public GgufFile {
 public:
  MappedGguf(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
             const MappedFile* file, const std::string& what)
      : owner_(std::move(owner)), file_(file), what_(what) {
    Reader reader(bytes, what_);
    read_header(reader);
    read_tensors(reader, bytes);
    // What walking over texts brought into memory.
    if (file_ != nullptr) file_->forget(bytes.first(reader.at()));
  }

  std::vector<std::string_view> keys() const override {
    std::vector<std::string_view> names;
    for (const auto& [name, key] : keys_) names.push_back(name);
    return names;
  }

  std::optional<GgufValue> find(std::string_view name) const override {
    const auto found = keys_.find(name);
    if (found == keys_.end()) return std::nullopt;
    const Key& key = found->second;
    const Kind kind = key.element;
    check_values(key);
    if (key.kind != Kind::kArray) {
      const std::byte* at = key.from;
      if (kind == Kind::kText) return text_at(at);
      if (kind == Kind::kBool) return as_bool(kind, at);
      if (is_real(kind)) return as_double(kind, at);
      return as_integer(kind, at);
    }
    if (kind == Kind::kText) return list_of<std::string_view>(key, text_at);
    if (kind == Kind::kBool) return list_of<bool>(key, of_size(kind, as_bool));
    if (is_real(kind)) return list_of<double>(key, of_size(kind, as_double));
    return list_of<std::int64_t>(key, of_size(kind, as_integer));
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, info] : tensors_) names.emplace_back(name);
    return names;
  }
  bool has(std::string_view name) const override { return tensors_.contains(name); }
  std::vector<std::int64_t> shape(std::string_view name) const override {
    return tensor(name).shape;
  }
  std::string_view type(std::string_view name) const override { return tensor(name).type->name; }
  std::vector<std::filesystem::path> paths() const override {
    return file_ == nullptr ? std::vector<std::filesystem::path>()
                            : std::vector{std::filesystem::absolute(what_)};
  }

  StoredTensor read(std::string_view name) const override {
    const Info& info = tensor(name);
    std::function<void()> forget;
    if (file_ != nullptr)
      forget = [owner = owner_, file = file_, bytes = info.bytes] { file->forget(bytes); };
    return {info.shape, info.type->read({info.bytes, owner_, std::move(forget)}, info.shape)};
  }

 private:
  void read_header(Reader& reader) {
    if (reader.left() < kMagic.size() ||
        std::memcmp(reader.skip(kMagic.size(), "its magic"), kMagic.data(), kMagic.size()) != 0)
      reader.fail("it does not begin with '{}': it is no GGUF file", kMagic);
    const auto version = reader.number<std::uint32_t>("the version");
    if (version < kFirstVersion || version > kLastVersion) {
      const bool is_swapped = (version & 0xffffU) == 0;
      throw unsupported_error(
          "'{}' is GGUF {}; Sinter reads versions {} and {}, little-endian: convert it again with "
          "llama.cpp",
          what_, is_swapped ? "of a big-endian machine" : fmt::format("version {}", version),
          kFirstVersion, kLastVersion);
    }
    // Names with their sizes, types, offsets: what an entry takes at least.
    constexpr std::uint64_t kLeastTensor = 8 + 1 + 4 + 8 + 4 + 8, kLeastKey = 8 + 1 + 4 + 1;
    tensor_count_ = reader.count("the number of tensors", kLeastTensor, kMostTensors);
    const std::uint64_t count = reader.count("the number of keys", kLeastKey, kMostKeys);
    for (std::uint64_t i = 0; i < count; ++i) read_key(reader, i);
    if (const auto parts = integer("split.count"); parts && *parts > 1)
      throw unsupported_error(
          "'{}' is part {} of a model of {} files: join them with 'llama-gguf-split --merge'",
          what_, integer("split.no").value_or(0) + 1, *parts);
  }

  void read_key(Reader& reader, std::uint64_t i) {
    Key key;
    key.name = reader.text(fmt::format("the name of key {}", i), kMostName);
    const std::string label = fmt::format("key '{}'", ir::shown(key.name));
    if (key.name.empty()) reader.fail("key {} has no name", i);
    key.kind = key.element = reader.kind(label);
    if (key.kind == Kind::kArray) {
      key.element = reader.kind(label);
      if (key.element == Kind::kArray)
        throw unsupported_error("'{}': {} is an array of arrays, which Sinter does not read", what_,
                                label);
      const std::size_t size = size_of_kind(key.element);
      key.count = reader.count("the length of " + label, size == 0 ? sizeof(std::uint64_t) : size,
                               size == 0 ? kMostValues - texts_ : kMostValues);
    }
    key.from = reader.here();
    if (key.element == Kind::kText) {
      texts_ += key.count;
      for (std::uint64_t j = 0; j < key.count; ++j) (void)reader.text(label);
    } else {
      reader.skip(key.count * size_of_kind(key.element), label);
    }
    if (!keys_.emplace(key.name, key).second) reader.fail("{} is there twice", label);
  }

  void read_tensors(Reader& reader, std::span<const std::byte> bytes) {
    for (std::uint64_t i = 0; i < tensor_count_; ++i) {
      Info info = read_info(reader, i);
      const std::string_view name = info.name;
      if (!tensors_.emplace(name, std::move(info)).second)
        reader.fail("tensor '{}' is there twice", ir::shown(name));
    }
    const auto given = integer("general.alignment");
    const auto alignment = static_cast<std::uint64_t>(given.value_or(kDefaultAlignment));
    if (!std::has_single_bit(alignment) || alignment > kMostAlignment)
      reader.fail("key 'general.alignment' is {}, no power of two up to {}",
                  given.value_or(kDefaultAlignment), kMostAlignment);
    const std::uint64_t begin = (reader.at() + alignment - 1) / alignment * alignment;
    const std::uint64_t size = begin < bytes.size() ? bytes.size() - begin : 0;
    std::vector<const Info*> by_offset;
    for (auto& [name, info] : tensors_) {
      const std::uint64_t length = info.length;
      if (info.offset % alignment != 0)
        reader.fail("tensor '{}' begins at offset {}, no multiple of the alignment of {}",
                    ir::shown(name), info.offset, alignment);
      if (info.offset > size || length > size - info.offset)
        reader.fail(
            "tensor '{}' of {} bytes at offset {} exceeds the {} bytes of tensors: the file "
            "is cut short or damaged",
            ir::shown(name), length, info.offset, size);
      info.bytes = bytes.subspan(static_cast<std::size_t>(begin + info.offset),
                                 static_cast<std::size_t>(length));
      by_offset.push_back(&info);
    }
    std::ranges::sort(by_offset, {}, [](const Info* info) { return info->offset; });
    for (std::size_t i = 1; i < by_offset.size(); ++i)
      if (const Info& a = *by_offset[i - 1], &b = *by_offset[i]; a.offset + a.length > b.offset)
        reader.fail("tensors '{}' and '{}' overlap at offset {}", ir::shown(a.name),
                    ir::shown(b.name), b.offset);
  }

  Info read_info(Reader& reader, std::uint64_t i) const {
    Info info;
    info.name = reader.text(fmt::format("the name of tensor {}", i), kMostTensorName);
    if (info.name.empty()) reader.fail("tensor {} has no name", i);
    const std::string label = fmt::format("tensor '{}'", ir::shown(info.name));
    const auto rank = reader.number<std::uint32_t>(label);
    if (rank > kMostDims)
      reader.fail("{} has {} dimensions; {} are the most", label, rank, kMostDims);
    constexpr std::uint64_t kMostElements = std::uint64_t{1} << 56;
    std::uint64_t count = 1;
    for (std::uint32_t d = 0; d < rank; ++d) {
      const auto dim = reader.number<std::uint64_t>(label);
      if (dim == 0 || dim > kMostElements / count)
        reader.fail("{} has a dimension of {}, {}", label, dim,
                    dim == 0 ? "no element" : "more elements than a tensor may have");
      count *= dim;
      info.shape.insert(info.shape.begin(), static_cast<std::int64_t>(dim));
    }
    const auto type = reader.number<std::uint32_t>(label);
    info.type = find_block_type(type);
    if (info.type == nullptr || info.type->read == nullptr)
      throw unsupported_error(
          "'{}': {} is stored as {}, which Sinter does not read; it reads {}", what_, label,
          info.type == nullptr ? fmt::format("type {}", type) : std::string(info.type->name),
          block_type_names());
    const std::uint64_t columns =
        info.shape.empty() ? 1 : static_cast<std::uint64_t>(info.shape.back());
    const auto elements = static_cast<std::uint64_t>(info.type->elements);
    if (columns % elements != 0)
      reader.fail("{} of {} has rows of {} elements, no multiple of {}", label, info.type->name,
                  columns, elements);
    info.offset = reader.number<std::uint64_t>(label);
    info.length = count / elements * static_cast<std::uint64_t>(info.type->bytes);
    return info;
  }

  /// Bools are 0 or 1, and unsigned integers fit int64. Checked here, as a long list is read then.
  void check_values(const Key& key) const {
    const auto fail = [&](std::string_view what, std::uint64_t value) {
      throw invalid_model_error("'{}': key '{}' has {} {}", what_, ir::shown(key.name), what,
                                value);
    };
    for (std::uint64_t i = 0; i < key.count; ++i)
      if (key.element == Kind::kBool) {
        if (key.from[i] > std::byte{1})
          fail("a truth value of", std::to_integer<std::uint64_t>(key.from[i]));
      } else if (key.element == Kind::kUInt64) {
        if (const auto value = load<std::uint64_t>(key.from + i * sizeof(std::uint64_t));
            value > INT64_MAX)
          fail("an integer beyond 63 bits,", value);
      } else {
        return;
      }
  }

  const Info& tensor(std::string_view name) const {
    if (const auto at = tensors_.find(name); at != tensors_.end()) return at->second;
    throw invalid_model_error("'{}' has no tensor '{}'{}", what_, ir::shown(name),
                              ir::did_you_mean(name, names()));
  }

  std::shared_ptr<const void> owner_;
  const MappedFile* file_;
  std::string what_;
  std::uint64_t tensor_count_ = 0, texts_ = 0;
  std::map<std::string_view, Key> keys_;
  std::map<std::string_view, Info> tensors_;
};

std::string_view name_of(const GgufValue& value) {
  constexpr std::string_view kNames[] = {"a truth value", "an integer", "a number", "a text",
                                         "truth values",  "integers",   "numbers",  "texts"};
  return kNames[value.index()];
}

/// The value of `key` as T; integers are numbers, too.
template <typename T>
std::optional<T> value_as(const GgufFile& file, std::string_view key) {
  const std::optional<GgufValue> value = file.find(key);
  if (!value) return std::nullopt;
  if (const T* own = std::get_if<T>(&*value)) return *own;
  if constexpr (std::same_as<T, double>)
    if (const auto* own = std::get_if<std::int64_t>(&*value)) return static_cast<double>(*own);
  if constexpr (std::same_as<T, std::vector<double>>)
    if (const auto* own = std::get_if<std::vector<std::int64_t>>(&*value))
      return T(own->begin(), own->end());
  throw invalid_model_error("key '{}' has {}, not {}", ir::shown(key), name_of(*value),
                            name_of(GgufValue(T())));
}

}  // namespace

std::shared_ptr<const GgufFile> GgufFile::open(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return std::make_shared<MappedGguf>(file->bytes(), file, file.get(), path.string());
}

std::shared_ptr<const GgufFile> GgufFile::parse(std::span<const std::byte> bytes,
                                                std::shared_ptr<const void> owner,
                                                const std::string& what) {
  return std::make_shared<MappedGguf>(bytes, std::move(owner), nullptr, what);
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  return value_as<bool>(*this, key);
}
std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  return value_as<std::int64_t>(*this, key);
}
std::optional<double> GgufFile::number(std::string_view key) const {
  return value_as<double>(*this, key);
}
std::optional<std::string_view> GgufFile::text(std::string_view key) const {
  return value_as<std::string_view>(*this, key);
}
std::optional<std::vector<std::int64_t>> GgufFile::integers(std::string_view key) const {
  return value_as<std::vector<std::int64_t>>(*this, key);
}
std::optional<std::vector<double>> GgufFile::numbers(std::string_view key) const {
  return value_as<std::vector<double>>(*this, key);
}
std::optional<std::vector<std::string_view>> GgufFile::texts(std::string_view key) const {
  return value_as<std::vector<std::string_view>>(*this, key);
}

std::string_view GgufFile::architecture() const {
  const auto name = text("general.architecture");
  if (!name) throw invalid_model_error("the GGUF file has no key 'general.architecture'");
  if (name->size() > kMostTensorName)
    throw invalid_model_error("key 'general.architecture' has {} bytes", name->size());
  return *name;
}

bool is_gguf(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  const auto bytes = file->bytes();
  return bytes.size() >= kMagic.size() &&
         std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

}  // namespace sinter::frontend
