// SPDX-License-Identifier: Apache-2.0
#include "tools/json/read_json.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

/// Truncates `reason`, which quotes the input.
Error not_json(std::string_view what, std::string_view reason) {
  constexpr std::size_t kMost = 300;
  return usage_error("{} is not JSON: {}{}", what, reason.substr(0, kMost),
                     reason.size() > kMost ? " .." : "");
}

/// The members of an object, which are given away one by one.
struct Members {
  std::string_view within, skipped;
  const std::function<void(std::string, nlohmann::json)>& take;
};

/// Builds values bottom-up, by moves only. `only`: keeps this member of the outermost object, and
/// checks no limits, because the text has been read before. `members`: keeps none of these.
template <typename Json>
class Reader : public nlohmann::json_sax<Json> {
  using Base = nlohmann::json_sax<Json>;

 public:
  Reader(std::string_view what, const JsonLimits& limits, std::optional<std::string_view> only,
         const Members* members)
      : what_(what), limits_(limits), only_(only), members_(members) {}

  Json take() { return std::move(root_); }
  /// Whether the object of `members` was there.
  bool has_object() const { return has_object_; }

  bool null() override { return number(nullptr); }
  bool boolean(bool value) override { return number(value); }
  bool number_integer(typename Base::number_integer_t value) override { return number(value); }
  bool number_unsigned(typename Base::number_unsigned_t value) override { return number(value); }
  bool number_float(typename Base::number_float_t value, const std::string&) override {
    return number(value);
  }
  bool string(std::string& value) override {
    count(values_, limits_.values, "texts, lists and objects");
    if (is_kept()) add(Json(std::move(value)));
    return true;
  }
  bool binary(typename Base::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return begin(true); }
  bool start_array(std::size_t) override { return begin(false); }
  bool key(std::string& value) override {
    count(values_, limits_.values, "texts, lists and objects");
    if (only_ && open_.size() == 1) is_wanted_ = value == *only_;
    if (members_ != nullptr && open_.size() == 1)
      is_wanted_ =
          members_->within.empty() ? value != members_->skipped : value == members_->within;
    if (is_kept()) open_.back().key = std::move(value);
    return true;
  }
  bool end_array() override {
    auto frame = std::move(open_.back());
    open_.pop_back();
    if (is_kept()) add(Json(std::move(frame.list)));
    return true;
  }
  bool end_object() override {
    auto frame = std::move(open_.back());
    open_.pop_back();
    if (members_ != nullptr && open_.size() + 1 == level() && (open_.empty() || is_wanted_))
      has_object_ = true;
    else if (is_kept())
      add(object_of(std::move(frame.members)));
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    throw not_json(what_, error.what());
  }

 private:
  using Object = typename Json::object_t;
  struct Frame {
    bool is_object;
    std::string key;  // key of the next member
    std::vector<std::pair<std::string, Json>> members;
    typename Json::array_t list;
  };

  void count(std::size_t& number, std::size_t most, const char* of) {
    if (!only_ && (members_ == nullptr || is_kept()) && ++number > most)
      throw usage_error("{} has more than {} {}", what_, most, of);
  }
  template <typename Value>
  bool number(Value value) {
    count(numbers_, limits_.numbers, "numbers");
    if (is_kept()) add(Json(value));
    return true;
  }
  bool is_kept() const { return (!only_ && members_ == nullptr) || (!open_.empty() && is_wanted_); }
  /// Depth of members that are given away.
  std::size_t level() const { return members_->within.empty() ? 1 : 2; }
  void add(Json value) {
    if (members_ != nullptr && open_.size() <= level()) {
      if constexpr (std::is_same_v<Json, nlohmann::json>)
        if (open_.size() == level() && open_.back().is_object)
          members_->take(std::move(open_.back().key), std::move(value));
      values_ = numbers_ = 0;
      return;
    }
    if (open_.empty() || (only_ && open_.size() == 1))
      root_ = std::move(value);
    else if (open_.back().is_object)
      open_.back().members.emplace_back(std::move(open_.back().key), std::move(value));
    else
      open_.back().list.push_back(std::move(value));
  }
  bool begin(bool is_object) {
    count(values_, limits_.values, "texts, lists and objects");
    if (!only_ && std::ssize(open_) >= limits_.depth)
      throw usage_error("{} is nested too deep: {} values in each other at most", what_,
                        limits_.depth);
    open_.push_back({is_object, {}, {}, {}});
    return true;
  }
  Json object_of(std::vector<std::pair<std::string, Json>> members) const {
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const auto& [name, _] : members) names.emplace_back(name);
    std::ranges::sort(names);
    if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
      throw usage_error("{} has an object with the key '{}' twice", what_, twice->substr(0, 100));
    Object object;
    if constexpr (std::is_same_v<Json, nlohmann::ordered_json>) {
      // Through the base class: the derived one searches all keys at each insertion.
      std::vector<typename Object::value_type>& list = object;
      list.reserve(members.size());
      for (auto& [name, value] : members) list.emplace_back(std::move(name), std::move(value));
    } else {
      for (auto& [name, value] : members) object.emplace(std::move(name), std::move(value));
    }
    return Json(std::move(object));
  }

  std::string what_;
  const JsonLimits& limits_;
  std::optional<std::string_view> only_;
  const Members* members_;
  bool is_wanted_ = false;  // inside the member to keep
  bool has_object_ = false;
  Json root_;
  std::vector<Frame> open_;
  std::size_t values_ = 0, numbers_ = 0;
};

template <typename Json>
void parse(std::string_view text, std::string_view what, Reader<Json>& reader) {
  try {
    Json::sax_parse(text.begin(), text.end(), &reader);
  } catch (const nlohmann::json::exception& error) {
    throw not_json(what, error.what());
  }
}

template <typename Json>
Json read(std::string_view text, std::string_view what, const JsonLimits& limits,
          std::optional<std::string_view> only) {
  Reader<Json> reader(what, limits, only, nullptr);
  parse(text, what, reader);
  return reader.take();
}

}  // namespace

nlohmann::json read_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  return read<nlohmann::json>(text, what, limits, std::nullopt);
}

nlohmann::ordered_json read_ordered_json(std::string_view text, std::string_view what,
                                         const JsonLimits& limits) {
  return read<nlohmann::ordered_json>(text, what, limits, std::nullopt);
}

nlohmann::ordered_json read_ordered_member(std::string_view text, std::string_view key) {
  return read<nlohmann::ordered_json>(text, "the text", {}, key);
}

bool read_json_members(std::string_view text, std::string_view what, const JsonLimits& limits,
                       std::string_view within, std::string_view skipped,
                       const std::function<void(std::string, nlohmann::json)>& take) {
  const Members members{within, skipped, take};
  Reader<nlohmann::json> reader(what, limits, std::nullopt, &members);
  parse(text, what, reader);
  return reader.has_object();
}

}  // namespace sinter::tools
