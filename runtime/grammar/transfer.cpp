// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/transfer.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <compiled_grammar_impl.h>
#include <fsm.h>
#include <grammar_impl.h>
#include <support/reflection.h>

#include "runtime/format_error.h"

namespace sinter::grammar {
namespace {

using xgrammar::CompactFSM;
using xgrammar::CompactFSMWithStartEnd;
using xgrammar::CompactFSMWithStartEndWithSize;
using xgrammar::DynamicBitset;
using Edges = xgrammar::Compact2DArray<xgrammar::FSMEdge>;

template <typename T>
constexpr bool is_plain =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, xgrammar::FSMEdge>;
static_assert(std::is_trivially_copyable_v<xgrammar::FSMEdge>);

class Writer {
 public:
  template <typename T>
  void write(const T& value) {
    if constexpr (is_plain<T>) {
      raw(&value, sizeof value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      size(value.size());
      raw(value.data(), value.size());
    } else if constexpr (xgrammar::is_std_vector<T>::value) {
      size(value.size());
      if constexpr (is_plain<typename T::value_type> &&
                    !std::is_same_v<typename T::value_type, bool>)
        raw(value.data(), value.size() * sizeof(typename T::value_type));
      else
        for (const auto& each : value) write(each);
    } else if constexpr (xgrammar::is_std_optional<T>::value) {
      write(value.has_value());
      if (value) write(*value);
    } else if constexpr (xgrammar::is_std_unordered_map<T>::value) {
      size(value.size());
      for (const auto& [key, each] : value) write(key), write(each);
    } else {
      write_object(value);
    }
  }
  std::string take() { return std::move(bytes_); }

 private:
  void raw(const void* data, std::size_t count) {
    if (count > 0) bytes_.append(static_cast<const char*>(data), count);
  }
  void size(std::size_t count) { write(static_cast<std::uint64_t>(count)); }

  template <typename T>
  void write_object(const T& value) {
    xgrammar::visit_config<T>([&](auto member, const char*, std::size_t) { write(value.*member); });
  }
  void write_object(const DynamicBitset& bits) {
    std::vector<std::uint32_t> words(
        static_cast<std::size_t>(DynamicBitset::GetBufferSize(bits.Size())));
    write(bits.Size());
    if (words.empty()) return;
    DynamicBitset copy(bits.Size(), words.data());
    copy = bits;
    write(words);
  }
  /// Several rules share one automaton, which is written once.
  void write_object(const CompactFSM& automaton) {
    const auto [at, is_new] = known_.emplace(automaton.ImplPtr(), known_.size());
    size(at->second);
    if (!is_new || automaton.IsNull()) return;
    write(automaton.GetEdges());
    write(automaton.GetEdgeAuxData());
  }
  void write_object(const CompactFSMWithStartEndWithSize& part) {
    write(part.GetFsm().GetFsm());
    write(part.GetFsm().GetStart());
    write(part.GetFsm().GetEnds());
    write(part.GetEdgeNum());
    write(part.GetNodeNum());
  }

  std::string bytes_;
  std::unordered_map<const void*, std::size_t> known_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  void read(T& value) {
    if constexpr (is_plain<T>) {
      raw(&value, sizeof value);
    } else if constexpr (std::is_same_v<T, std::string>) {
      value.resize(size(1));
      raw(value.data(), value.size());
    } else if constexpr (xgrammar::is_std_vector<T>::value) {
      using Each = typename T::value_type;
      if constexpr (is_plain<Each>) {
        value.resize(size(sizeof(Each)));
        raw(value.data(), value.size() * sizeof(Each));
      } else {
        value.resize(size(1));
        for (Each& each : value) read(each);
      }
    } else if constexpr (xgrammar::is_std_optional<T>::value) {
      bool has_value = false;
      read(has_value);
      if (has_value) read(value.emplace());
    } else if constexpr (xgrammar::is_std_unordered_map<T>::value) {
      const std::size_t count = size(1);
      value.reserve(count);
      for (std::size_t i = 0; i < count; ++i) {
        typename T::key_type key{};
        read(key);
        typename T::mapped_type each{};
        read(each);
        value.emplace(std::move(key), std::move(each));
      }
    } else {
      read_object(value);
    }
  }
  void finish() const {
    if (!rest_.empty()) fail();
  }

 private:
  [[noreturn]] static void fail() { throw internal_error("a compiled grammar cannot be read"); }
  void raw(void* data, std::size_t count) {
    if (count > rest_.size()) fail();
    if (count > 0) std::memcpy(data, rest_.data(), count);
    rest_.remove_prefix(count);
  }
  /// Reads the length of an array whose elements take at least `each` bytes.
  std::size_t size(std::size_t each) {
    std::uint64_t count = 0;
    read(count);
    if (count > rest_.size() / each) fail();
    return static_cast<std::size_t>(count);
  }

  template <typename T>
  void read_object(T& value) {
    xgrammar::visit_config<T>([&](auto member, const char*, std::size_t) { read(value.*member); });
  }
  void read_object(DynamicBitset& bits) {
    int size = 0;
    read(size);
    bits = DynamicBitset(size);
    if (size == 0) return;
    std::vector<std::uint32_t> words;
    read(words);
    if (words.size() != static_cast<std::size_t>(DynamicBitset::GetBufferSize(size))) fail();
    const DynamicBitset copy(size, words.data());
    bits = copy;
  }
  void read_object(CompactFSM& automaton) {
    std::uint64_t number = 0;
    read(number);
    if (number > known_.size()) fail();
    if (number == known_.size()) {
      Edges edges;
      read(edges);
      std::vector<std::int32_t> more;
      read(more);
      known_.emplace_back(std::move(edges), std::move(more));
    }
    automaton = known_[static_cast<std::size_t>(number)];
  }
  void read_object(CompactFSMWithStartEndWithSize& part) {
    CompactFSM automaton{xgrammar::NullObj{}};
    read(automaton);
    int start = 0, edges = 0, nodes = 0;
    std::vector<std::int32_t> ends;
    read(start);
    read(ends);
    read(edges);
    read(nodes);
    part = CompactFSMWithStartEndWithSize(CompactFSMWithStartEnd(automaton, start, std::move(ends)),
                                          edges, nodes);
  }

  std::string_view rest_;
  std::vector<CompactFSM> known_;
};

}  // namespace

std::string serialized(const xgrammar::CompiledGrammar& grammar) {
  const auto* impl = grammar.ImplPtr();
  Writer writer;
  writer.write(*impl->grammar.ImplPtr());
  writer.write(impl->adaptive_token_mask_cache);
  return writer.take();
}

xgrammar::CompiledGrammar read_compiled(std::string_view bytes,
                                        const xgrammar::TokenizerInfo& tokenizer) {
  Reader reader(bytes);
  auto grammar = std::make_shared<xgrammar::Grammar::Impl>();
  reader.read(*grammar);
  auto impl = std::make_shared<xgrammar::CompiledGrammar::Impl>();
  reader.read(impl->adaptive_token_mask_cache);
  reader.finish();
  impl->grammar = xgrammar::Grammar(std::move(grammar));
  impl->tokenizer_info = tokenizer;
  return xgrammar::CompiledGrammar(std::move(impl));
}

}  // namespace sinter::grammar
