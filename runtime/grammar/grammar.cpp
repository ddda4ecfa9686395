#include "runtime/grammar/grammar.h"

#include <algorithm>
#include <array>
#include <list>
#include <mutex>
#include <optional>
#include <string>

#include <xgrammar/xgrammar.h>

#include "runtime/format_error.h"
#include "runtime/grammar/check_schema.h"
#include "runtime/grammar/xgrammar_calls.h"

namespace sinter::grammar {
namespace {

constexpr std::size_t kMostText = std::size_t{64} << 10;  // bytes of a constraint
// Units of work (xgrammar_calls.h), of which a core does some 50 million a second.
constexpr std::int64_t kCompileUnits = 100'000'000;
constexpr std::int64_t kTextUnits = 5'000'000;  // that a text may save up
constexpr std::int64_t kTokenUnits = 500'000;   // for each of its tokens
constexpr std::size_t kMostKept = 64;           // grammars
// The library's own cache knows a rule by 32 bits of a hash: two grammars might get each other's.
constexpr bool kHasCache = false;
constexpr std::size_t kMostKeptBytes = std::size_t{256} << 20;

std::string_view name_of(Constraint::Kind kind) {
  switch (kind) {
    case Constraint::Kind::kJsonObject: return "JSON object";
    case Constraint::Kind::kJsonSchema: return "JSON schema";
    case Constraint::Kind::kRegex: return "regular expression";
    case Constraint::Kind::kGrammar: return "grammar";
    case Constraint::Kind::kChoice: return "choice";
    case Constraint::Kind::kStructuralTag: return "structural tag";
  }
  return "constraint";
}

std::size_t bytes_of(const Constraint& constraint) {
  std::size_t bytes = constraint.text.size();
  for (const std::string& choice : constraint.choices) bytes += choice.size();
  return bytes;
}

/// A text as a rule of a grammar.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      result += '\\', result += c;
    else if (byte < 0x20 || byte == 0x7F)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += c;
  }
  return result + '"';
}

std::string grammar_of_choices(const std::vector<std::string>& choices) {
  if (choices.empty()) throw usage_error("there is nothing to choose from");
  std::string result;
  for (const std::string& choice : choices) {
    if (choice.find('\0') != std::string::npos) throw usage_error("one has a byte of 0");
    result += (result.empty() ? "root ::= " : " | ") + quoted(choice);
  }
  return result + "\n";
}

/// A schema or grammar as the library takes it, to be compiled.
struct Source {
  Constraint::Kind kind;
  std::string text;
};

Source source_of(const Constraint& constraint) {
  using Kind = Constraint::Kind;
  const Kind kind = constraint.kind;
  if (kind != Kind::kChoice && !constraint.choices.empty())
    throw usage_error("choices are of a constraint of that kind");
  const bool has_text = kind != Kind::kChoice && kind != Kind::kJsonObject;
  if (!has_text && !constraint.text.empty()) throw usage_error("it takes no text");
  if (has_text && constraint.text.empty()) throw usage_error("it is empty");
  switch (kind) {
    case Kind::kJsonObject: return {Kind::kJsonSchema, checked_schema(R"({"type": "object"})")};
    case Kind::kJsonSchema: return {kind, checked_schema(constraint.text)};
    case Kind::kChoice: return {Kind::kGrammar, grammar_of_choices(constraint.choices)};
    case Kind::kStructuralTag: return {kind, checked_structural_tag(constraint.text)};
    case Kind::kRegex:
    case Kind::kGrammar: break;
  }
  return {kind, constraint.text};
}

xgrammar::CompiledGrammar compiled(xgrammar::GrammarCompiler& compiler, const Source& source) {
  switch (source.kind) {
    case Constraint::Kind::kJsonSchema: return compiler.CompileJSONSchema(source.text);
    case Constraint::Kind::kRegex: return compiler.CompileRegex(source.text);
    case Constraint::Kind::kStructuralTag: return compiler.CompileStructuralTag(source.text);
    default: return compiler.CompileGrammar(source.text);
  }
}

std::vector<std::string> vocabulary_of(
    int vocabulary, const std::function<std::string_view(TokenId)>& token_bytes) {
  std::vector<std::string> tokens;
  tokens.reserve(static_cast<std::size_t>(vocabulary));
  for (TokenId token = 0; token < vocabulary; ++token) tokens.emplace_back(token_bytes(token));
  if (std::ranges::all_of(tokens, &std::string::empty))
    throw usage_error("a constraint needs the bytes of tokens, and no token has any");
  return tokens;
}

}  // namespace

struct Grammar::Impl {
  xgrammar::CompiledGrammar compiled;
};

Grammar::Grammar(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Grammar::~Grammar() = default;

struct Compiler::Impl {
  struct Kept {
    Constraint constraint;
    std::shared_ptr<const Grammar> grammar;
    std::size_t bytes;
  };

  Impl(int vocabulary, const std::function<std::string_view(TokenId)>& token_bytes)
      // One thread, so that what is said on the way is of this call.
      : compiler(xgrammar::TokenizerInfo(vocabulary_of(vocabulary, token_bytes),
                                         xgrammar::VocabType::RAW, vocabulary,
                                         std::vector<std::int32_t>()),
                 1, kHasCache) {}

  std::shared_ptr<const Grammar> find(const Constraint& constraint) {
    const std::scoped_lock lock(mutex);
    const auto found = std::ranges::find(kept, constraint, &Kept::constraint);
    if (found == kept.end()) return nullptr;
    kept.splice(kept.begin(), kept, found);
    return found->grammar;
  }

  void keep(Kept grammar) {
    const std::scoped_lock lock(mutex);
    bytes += grammar.bytes;
    kept.push_front(std::move(grammar));
    while (kept.size() > 1 && (kept.size() > kMostKept || bytes > kMostKeptBytes)) {
      bytes -= kept.back().bytes;
      kept.pop_back();
    }
  }

  xgrammar::GrammarCompiler compiler;
  std::mutex compiles;
  std::mutex mutex;  // of what follows
  std::list<Kept> kept;
  std::size_t bytes = 0;
};

Compiler::Compiler(int vocabulary, const std::function<std::string_view(TokenId)>& token_bytes)
    : impl_(std::make_unique<Impl>(vocabulary, token_bytes)) {}
Compiler::~Compiler() = default;

std::shared_ptr<const Grammar> Compiler::compile(const Constraint& constraint) {
  if (auto found = impl_->find(constraint)) return found;
  return with_context(std::string(name_of(constraint.kind)), [&] {
    if (bytes_of(constraint) > kMostText)
      throw usage_error("it has {} bytes: {} at most", bytes_of(constraint), kMostText);
    const Source source = source_of(constraint);
    const std::scoped_lock lock(impl_->compiles);
    if (auto found = impl_->find(constraint)) return found;  // another thread was first
    std::int64_t units = kCompileUnits;
    std::optional<xgrammar::CompiledGrammar> result;
    call_xgrammar(units, [&] { result.emplace(compiled(impl_->compiler, source)); });
    const std::size_t bytes = result->MemorySizeBytes();
    auto grammar = std::make_shared<const Grammar>(
        std::make_unique<const Grammar::Impl>(Grammar::Impl{std::move(*result)}));
    impl_->keep({constraint, grammar, bytes});
    return std::shared_ptr<const Grammar>(std::move(grammar));
  });
}

struct Matcher::State {
  xgrammar::GrammarMatcher matcher;
};

Matcher::Matcher(std::shared_ptr<const Grammar> grammar, std::span<const TokenId> stops)
    : grammar_(std::move(grammar)), stops_(stops.begin(), stops.end()), units_(kTextUnits) {
  call_xgrammar(units_, [&] {
    state_ = std::make_unique<State>(State{xgrammar::GrammarMatcher(grammar_->impl().compiled)});
  });
  const int vocabulary = grammar_->impl().compiled.GetTokenizerInfo().GetVocabSize();
  mask_.resize((static_cast<std::size_t>(vocabulary) + 31) / 32);
}
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;
Matcher::~Matcher() = default;

void Matcher::fill() {
  if (is_filled_) return;
  if (has_ended_) {
    std::ranges::fill(mask_, 0);
    is_filled_ = true;
    return;
  }
  std::array<std::int64_t, 1> shape = {static_cast<std::int64_t>(mask_.size())};
  DLTensor tensor{};
  tensor.data = mask_.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = xgrammar::GetBitmaskDLType();
  tensor.shape = shape.data();
  call_xgrammar(units_, [&] {
    if (!state_->matcher.FillNextTokenBitmask(&tensor)) std::ranges::fill(mask_, ~std::uint32_t{0});
  });
  const int vocabulary = grammar_->impl().compiled.GetTokenizerInfo().GetVocabSize();
  if (vocabulary % 32 != 0) mask_.back() &= (std::uint32_t{1} << (vocabulary % 32)) - 1;
  const bool may_end = state_->matcher.IsCompleted();
  for (const TokenId stop : stops_) {
    const auto at = static_cast<std::size_t>(stop);
    const std::uint32_t bit = std::uint32_t{1} << (at % 32);
    mask_[at / 32] = may_end ? mask_[at / 32] | bit : mask_[at / 32] & ~bit;
  }
  is_filled_ = true;
}

std::span<const std::uint32_t> Matcher::mask() {
  fill();
  return mask_;
}

bool Matcher::is_stuck() {
  return std::ranges::all_of(mask(), [](std::uint32_t word) { return word == 0; });
}

void Matcher::accept(TokenId token) {
  if (has_ended_) throw internal_error("a text goes on behind its end");
  is_filled_ = false;
  if (std::ranges::find(stops_, token) != stops_.end()) {
    if (!state_->matcher.IsCompleted()) throw internal_error("a text ends where it may not");
    has_ended_ = true;
    return;
  }
  bool is_taken = false;
  units_ = std::min(units_ + kTokenUnits, kTextUnits);
  call_xgrammar(units_, [&] { is_taken = state_->matcher.AcceptToken(token); });
  if (!is_taken) throw internal_error("token {} is none that may come next", token);
  if (!state_->matcher.IsCompleted()) return;
  // Ends where nothing but a stop token is left.
  fill();
  auto rest = mask_;
  for (const TokenId stop : stops_) {
    const auto at = static_cast<std::size_t>(stop);
    rest[at / 32] &= ~(std::uint32_t{1} << (at % 32));
  }
  has_ended_ = std::ranges::all_of(rest, [](std::uint32_t word) { return word == 0; });
  if (has_ended_) is_filled_ = false;
}

}  // namespace sinter::grammar
