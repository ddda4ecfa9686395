// Masks against brute force: which tokens may come next is found by asking of each whether a text
// of the language begins so.
#include "runtime/grammar/grammar.h"

#include <algorithm>
#include <regex>
#include <string>

#include <gmock/gmock.h>
#include <sinter/error.h>

namespace sinter::testing {
namespace {

using grammar::Compiler;
using grammar::Grammar;
using grammar::Matcher;
using Kind = Constraint::Kind;
using ::testing::HasSubstr;

/// The last is an end.
struct Vocabulary {
  std::vector<std::string> tokens;

  TokenId end() const { return static_cast<TokenId>(tokens.size()) - 1; }
  Compiler compiler() const {
    return {static_cast<int>(tokens.size()), [this](TokenId token) -> std::string_view {
              return tokens.at(static_cast<std::size_t>(token));
            }};
  }
};

Constraint of_text(Kind kind, std::string text) { return {kind, std::move(text), {}}; }

class BruteForce {
 public:
  BruteForce(const Vocabulary& vocabulary, const Constraint& constraint,
             std::vector<std::string> language)
      : vocabulary_(vocabulary),
        compiler_(vocabulary.compiler()),
        grammar_(compiler_.compile(constraint)),
        language_(std::move(language)) {
    std::ranges::sort(language_);
  }

  /// All that `depth` tokens can be.
  void check(int depth) {
    std::vector<TokenId> tokens;
    visit(tokens, "", depth);
    EXPECT_GT(states_, 2);
  }

 private:
  bool begins(const std::string& text) const {
    const auto at = std::ranges::lower_bound(language_, text);
    return at != language_.end() && at->starts_with(text);
  }
  bool has(const std::string& text) const { return std::ranges::binary_search(language_, text); }

  void visit(std::vector<TokenId>& tokens, const std::string& text, int depth) {
    ++states_;
    const std::vector<TokenId> stops = {vocabulary_.end()};
    Matcher matcher(grammar_, stops);
    for (const TokenId token : tokens) matcher.accept(token);
    bool may_go_on = false;
    for (TokenId token = 0; token < vocabulary_.end(); ++token) {
      const std::string& bytes = vocabulary_.tokens[static_cast<std::size_t>(token)];
      const bool may_come = !bytes.empty() && begins(text + bytes);
      may_go_on = may_go_on || may_come;
      ASSERT_EQ(!matcher.has_ended() && grammar::allows(matcher.mask(), token), may_come)
          << "'" << bytes << "' behind '" << text << "'";
      if (!may_come || depth == 0) continue;
      tokens.push_back(token);
      visit(tokens, text + bytes, depth - 1);
      tokens.pop_back();
      if (::testing::Test::HasFatalFailure()) return;
    }
    ASSERT_EQ(matcher.has_ended(), has(text) && !may_go_on && !tokens.empty()) << text;
    if (matcher.has_ended()) return;
    ASSERT_EQ(grammar::allows(matcher.mask(), vocabulary_.end()), has(text)) << text;
  }

  const Vocabulary& vocabulary_;
  Compiler compiler_;
  std::shared_ptr<const Grammar> grammar_;
  std::vector<std::string> language_;
  int states_ = 0;
};

/// All texts of up to `length` of the letters that `pattern` matches whole.
std::vector<std::string> language_of(const std::string& pattern, std::string_view letters,
                                     std::size_t length) {
  const std::regex regex(pattern);
  std::vector<std::string> all, texts = {""};
  for (std::size_t size = 0; size <= length; ++size) {
    std::vector<std::string> longer;
    for (const std::string& text : texts) {
      if (std::regex_match(text, regex)) all.push_back(text);
      for (const char letter : letters) longer.push_back(text + letter);
    }
    texts = std::move(longer);
  }
  return all;
}

// A token that has another one inside, but does not begin with it, comes right behind that where
// nothing lies between them: "ab", "acab".
const Vocabulary kLetters = {{"a", "b", "c", "ab", "ba", "abc", "cc", "bcab", "aab", "caa", "acab",
                              "", "bb", "ccc", "</s>"}};

TEST(Grammar, MasksOfRegularExpressionsAreBruteForce) {
  for (const char* pattern : {"a*b?c", "(ab|ba|c)+", "a{2,4}b", "(a|bc){1,3}a?", "[ac]b{0,2}[^a]",
                              "(acab|bcab)c*", "((a|b)(c|a)){2}", "a|b|abc", "(aab?|acab)+"}) {
    SCOPED_TRACE(pattern);
    // Whatever two tokens begin ends within the length.
    BruteForce(kLetters, of_text(Kind::kRegex, pattern), language_of(pattern, "abc", 9)).check(1);
    if (HasFatalFailure()) return;
  }
}

TEST(Grammar, MasksOfChoicesAndGrammarsAreBruteForce) {
  BruteForce(kLetters, {Kind::kChoice, "", {"abc", "ab", "bcabcc", "cc", "aab"}},
             {"abc", "ab", "bcabcc", "cc", "aab"})
      .check(6);
  std::vector<std::string> nested = {"c"};
  for (int i = 0; i < 12; ++i) nested.push_back("a" + nested.back() + "b");
  BruteForce(kLetters, of_text(Kind::kGrammar, "root ::= \"a\" root \"b\" | \"c\"\n"), nested)
      .check(3);
}

TEST(Grammar, CharactersMayBeDividedByTokens) {
  const Vocabulary vocabulary = {
      {"\xC3", "\xA9", "\xE2\x82", "\xAC", "\xE2", "\x82", "a", "a\xC3", "\xA9\xE2", "</s>"}};
  std::vector<std::string> language;
  for (const char* first : {"", "\u00e9", "\u20ac", "a"})
    for (const char* second : {"", "\u00e9", "\u20ac", "a"})
      for (const char* third : {"", "\u00e9", "\u20ac", "a"})
        for (const char* fourth : {"", "\u00e9", "\u20ac", "a"})
          language.push_back(std::string(first) + second + third + fourth);
  std::ranges::sort(language);
  language.erase(std::unique(language.begin(), language.end()), language.end());
  BruteForce(vocabulary, of_text(Kind::kRegex, "[\u00e9\u20aca]{0,4}"), language).check(7);
}

TEST(Grammar, MasksOfSchemasAreBruteForce) {
  // Without white space in the vocabulary there is one spelling of each value.
  Vocabulary vocabulary;
  for (const char* token : {"{",   "}",   "[",     "]",      ",",    ":",     "\"",   "a",
                            "b",   "1",   "2",     "-",      "true", "false", "null", "{\"",
                            "\":", "\"}", "\",",   "\"a\":", "},",   ",\"",   "[1",   "1]",
                            "1,",  "x",   "\"x\"", "",       "</s>"})
    vocabulary.tokens.emplace_back(token);
  std::vector<std::string> objects, arrays = {"[]"};
  for (const char* a : {"true", "false"})
    for (const char* b : {"", ",\"b\":1", ",\"b\":\"x\"", ",\"b\":null"})
      objects.push_back(std::string("{\"a\":") + a + b + "}");
  BruteForce(vocabulary, of_text(Kind::kJsonSchema, R"({"type": "object", "properties":
               {"a": {"type": "boolean"}, "b": {"enum": [1, "x", null]}}, "required": ["a"]})"),
             objects)
      .check(8);
  for (const char* first : {"1", "2"}) {
    arrays.push_back(std::string("[") + first + "]");
    for (const char* second : {"1", "2"})
      arrays.push_back(std::string("[") + first + "," + second + "]");
  }
  BruteForce(vocabulary, of_text(Kind::kJsonSchema, R"({"type": "array", "maxItems": 2,
               "items": {"type": "integer", "minimum": 1, "maximum": 2}})"),
             arrays)
      .check(6);
  // A value within one of its own kind, whose ends come together.
  std::vector<std::string> nested = {"{}"};
  for (int i = 0; i < 12; ++i) nested.push_back("{\"a\":" + nested.back() + "}");
  vocabulary.tokens.insert(vocabulary.tokens.begin(), {"}}", "{}", "}}}"});
  BruteForce(
      vocabulary,
      of_text(Kind::kJsonSchema, R"({"type": "object", "properties": {"a": {"$ref": "#"}}})"),
      nested)
      .check(7);
  // By references, and in the order of the schema.
  BruteForce(vocabulary,
             of_text(Kind::kJsonSchema, R"({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object",
               "properties": {"b": {"const": 1}, "a": {"anyOf": [{"const": 2}, {"type": "null"}]}},
               "required": ["b", "a"]}}})"),
             {"{\"b\":1,\"a\":2}", "{\"b\":1,\"a\":null}"})
      .check(9);
}

TEST(Grammar, StopTokensEndATextWhateverTheirBytesAre) {
  Compiler compiler = kLetters.compiler();
  const auto grammar = compiler.compile(of_text(Kind::kRegex, "a+b*"));
  const std::vector<TokenId> stops = {1, kLetters.end()};  // "b"
  Matcher matcher(grammar, stops);
  EXPECT_FALSE(grammar::allows(matcher.mask(), 1));
  EXPECT_FALSE(grammar::allows(matcher.mask(), kLetters.end()));
  matcher.accept(0);
  EXPECT_TRUE(grammar::allows(matcher.mask(), 0));
  EXPECT_TRUE(grammar::allows(matcher.mask(), 1));
  EXPECT_TRUE(grammar::allows(matcher.mask(), 12)) << "bb is none of them";
  EXPECT_FALSE(matcher.has_ended());
  matcher.accept(1);
  EXPECT_TRUE(matcher.has_ended());
  EXPECT_TRUE(matcher.is_stuck());
  EXPECT_THROW(matcher.accept(0), Error);
}

TEST(Grammar, EndsOfItselfWhereNothingMayFollow) {
  Compiler compiler = kLetters.compiler();
  Matcher matcher(compiler.compile(of_text(Kind::kRegex, "a{2}")), {});
  matcher.accept(0);
  EXPECT_FALSE(matcher.has_ended());
  EXPECT_THROW(matcher.accept(1), Error) << "no token that may come";
  Matcher other(compiler.compile(of_text(Kind::kRegex, "a{2}")), {});
  other.accept(0);
  other.accept(0);
  EXPECT_TRUE(other.has_ended());
  // No token has the byte that must come.
  Matcher stuck(compiler.compile(of_text(Kind::kRegex, "az")), {});
  EXPECT_FALSE(stuck.is_stuck());
  stuck.accept(0);
  EXPECT_TRUE(stuck.is_stuck());
  EXPECT_FALSE(stuck.has_ended());
}

TEST(Grammar, LastOnesAreKept) {
  Compiler compiler = kLetters.compiler();
  const Constraint first = of_text(Kind::kRegex, "a*");
  const std::weak_ptr<const Grammar> grammar = compiler.compile(first);
  EXPECT_EQ(compiler.compile(first), grammar.lock());
  for (int i = 0; i < 100; ++i)
    compiler.compile(
        of_text(Kind::kRegex, std::string("b") + std::string(static_cast<std::size_t>(i), 'a')));
  EXPECT_TRUE(grammar.expired());
}

TEST(Grammar, OfNoTokensIsRefused) {
  EXPECT_THROW(Compiler(4, [](TokenId) { return std::string_view(); }), Error);
}

std::string repeated(std::string_view text, std::size_t count) {
  std::string result;
  while (count-- > 0) result += text;
  return result;
}

std::string refusal(const Constraint& constraint) {
  static Compiler compiler = kLetters.compiler();
  // What was refused once is refused again.
  std::string first;
  for (int i = 0; i < 2; ++i) {
    try {
      compiler.compile(constraint);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      if (i == 1) {
        EXPECT_EQ(first, error.what());
      }
      first = error.what();
    }
  }
  return first;
}

TEST(Grammar, RefusalsSayWhatIsWrong) {
  const std::vector<std::pair<Constraint, const char*>> cases = {
      {of_text(Kind::kRegex, ""), "regular expression: it is empty"},
      {of_text(Kind::kRegex, "(a"), "parenthesis"},
      {of_text(Kind::kRegex, "[z-a]"), "lower bound"},
      {of_text(Kind::kRegex, "a{5,2}"), "Lower bound"},
      {of_text(Kind::kRegex, "a{99999999999999999999}"), "too large"},
      {of_text(Kind::kRegex, "(?=a)b"), "Lookahead"},
      {of_text(Kind::kRegex, R"((a)\1)"), "Backreference"},
      {of_text(Kind::kRegex, "a^b"), "'^'"},
      {of_text(Kind::kRegex, "\xFF"), "UTF-8"},
      {of_text(Kind::kGrammar, "root ::= \"a"), "line 1"},
      {of_text(Kind::kGrammar, "rule ::= \"a\"\n"), "root"},
      {of_text(Kind::kGrammar, "root ::= other\n"), "other"},
      {{Kind::kChoice, "", {}}, "nothing to choose"},
      {{Kind::kChoice, "a", {"b"}}, "takes no text"},
      {{Kind::kRegex, "a", {"b"}}, "choices"},
      {of_text(Kind::kJsonSchema, "{\"type\""), "no JSON"},
      {of_text(Kind::kJsonSchema, "{} {}"), "something follows"},
      {of_text(Kind::kJsonSchema, "null"), "neither an object nor a boolean"},
      {of_text(Kind::kJsonSchema, "false"), "cannot accept"},
      {of_text(Kind::kJsonSchema, R"({"type": "strang"})"), "strang"},
      {of_text(Kind::kJsonSchema, R"({"type": 3})"), "'type'"},
      {of_text(Kind::kJsonSchema, R"({"not": {}})"), "'not' is not supported"},
      {of_text(Kind::kJsonSchema, R"({"type": "array", "uniqueItems": true})"), "'uniqueItems'"},
      {of_text(Kind::kJsonSchema, R"({"type": "object", "properties": {"a": {"if": {}}}})"),
       "at '/properties/a': 'if'"},
      {of_text(Kind::kJsonSchema, R"({"type": "object", "required": ["a"]})"), "names 'a'"},
      {of_text(Kind::kJsonSchema, R"({"$ref": "http://a/b"})"), "http://a/b"},
      {of_text(Kind::kJsonSchema, R"({"$ref": "#/a"})"), "not there"},
      {of_text(Kind::kJsonSchema, R"({"anyOf": [{}], "properties": {}})"), "beside 'anyOf'"},
      {of_text(Kind::kJsonSchema, R"({"allOf": [{}, {}]})"), "'allOf'"},
      {of_text(Kind::kJsonSchema, R"({"minLength": 3})"), "needs a 'type'"},
      {of_text(Kind::kJsonSchema, R"({"type": "string", "enum": ["a", 1]})"), "not of the 'type'"},
      {of_text(Kind::kJsonSchema, R"({"type": "string", "pattern": 1})"), "'pattern'"},
      {of_text(Kind::kJsonSchema, R"({"type": "string", "pattern": "a", "minLength": 2})"),
       "minLength"},
      {of_text(Kind::kJsonSchema, R"({"type": "string", "pattern": "(?!a)b"})"), "ookahead"},
      {of_text(Kind::kJsonSchema,
               R"({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 2}]})"),
       "oneOf"},
      {of_text(Kind::kStructuralTag, R"({"type": "structural_tag"})"), "format"}};
  for (const auto& [constraint, reason] : cases)
    EXPECT_THAT(refusal(constraint), HasSubstr(reason)) << constraint.text;
}

/// What would take minutes, or the stack, ends.
TEST(Grammar, WhatIsTooMuchIsRefused) {
  EXPECT_EQ(refusal(of_text(Kind::kRegex, "(a{1000}){1000}")), "");
  EXPECT_EQ(refusal(of_text(Kind::kJsonSchema, R"({"type": "object", "properties":
      {"a": {"$ref": "#"}, "b": {"type": "array", "items": {"$ref": "#"}}}})")),
            "");
  EXPECT_THAT(refusal(of_text(Kind::kRegex, std::string(1 << 20, 'a'))), HasSubstr("bytes"));
  EXPECT_NE(refusal(of_text(Kind::kRegex, repeated("(", 20000) + "a" + repeated(")", 20000))), "");
  EXPECT_NE(refusal(of_text(Kind::kGrammar, "root ::= " + repeated("(", 50000) + "\"a\"" +
                                                repeated(")", 50000) + "\n")),
            "");
  EXPECT_THAT(refusal(of_text(Kind::kJsonSchema,
                              repeated(R"({"items": )", 4000) + "{}" + repeated("}", 4000))),
              HasSubstr("nested deeper"));
  Compiler compiler = kLetters.compiler();
  EXPECT_THROW(
      compiler.compile(of_text(Kind::kGrammar, "root ::= " + repeated("\"a\"? ", 1500) + "\n")),
      Error);
}

/// A short expression whose texts take ever longer to follow.
TEST(Grammar, TextsThatTakeTooMuchFail) {
  Compiler compiler = kLetters.compiler();
  const auto grammar =
      compiler.compile(of_text(Kind::kRegex, repeated("([a-z]|[b-y]|[c-x])*", 200)));
  std::string failure;
  try {
    Matcher matcher(grammar, {});
    for (int i = 0; i < 200; ++i) {
      matcher.mask();
      matcher.accept(i % 3);
    }
  } catch (const Error& error) {
    failure = error.what();
  }
  EXPECT_THAT(failure, HasSubstr("too long"));
}

}  // namespace
}  // namespace sinter::testing
