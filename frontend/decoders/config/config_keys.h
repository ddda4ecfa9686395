// SPDX-License-Identifier: Apache-2.0
// The settings of a decoder by config.json's names, from config.json or the metadata of GGUF.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "frontend/decoders/files/gguf.h"

namespace sinter::frontend {

/// Most that a configuration may say.
inline constexpr std::int64_t kMostLayers = 1024, kMostHeads = 1 << 14, kMostSize = 1 << 20,
                              kMostTokens = 1 << 26, kMostPositions = std::int64_t{1} << 31;

class ConfigKeys {
 public:
  using Value = std::variant<bool, std::int64_t, double, std::string, std::vector<double>,
                             std::vector<std::string>>;
  virtual ~ConfigKeys() = default;
  ConfigKeys(const ConfigKeys&) = delete;
  ConfigKeys& operator=(const ConfigKeys&) = delete;

  /// Nothing if the key is absent or null; "rope_scaling.factor" is a member of an object. Throws
  /// Error(kInvalidModel) if the value is of another type, naming the key as the file does.
  std::optional<bool> flag(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key) const;
  /// An integer, or of a list for layers the one that all have but for zeros.
  std::optional<std::int64_t> largest(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::vector<double>> numbers(std::string_view key) const;
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  /// Own names of keys, from here on: (ours, the file's). They are looked for first.
  void spell(std::span<const std::pair<std::string_view, std::string_view>> names) {
    names_ = names;
  }
  /// Whether it is there, and not null, whatever it is.
  bool has(std::string_view key) const { return get(key).has_value(); }
  /// Throws if it is absent, or not in 1 .. `most`.
  std::int64_t size(std::string_view key, std::int64_t most) const;
  std::int64_t size_or(std::string_view key, std::int64_t fallback, std::int64_t most) const;

  /// The key as the file spells it.
  virtual std::string spelled(std::string_view key) const = 0;
  /// Keys that nobody has asked for, but for those whose value has no effect: null, false, 0, 1,
  /// [].
  virtual std::vector<std::string> unread() const = 0;
  virtual bool is_gguf() const = 0;

 protected:
  ConfigKeys() = default;
  virtual std::optional<Value> find(std::string_view key) const = 0;
  mutable std::set<std::string, std::less<>> read_;
  std::span<const std::pair<std::string_view, std::string_view>> names_;

 private:
  std::optional<Value> get(std::string_view key) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view wanted) const;
};

/// `text` is that of config.json. Throws Error(kInvalidModel).
std::unique_ptr<ConfigKeys> keys_of_json(const std::string& text);
std::unique_ptr<ConfigKeys> keys_of_gguf(const GgufFile& file);

}  // namespace sinter::frontend
