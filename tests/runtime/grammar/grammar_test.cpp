// SPDX-License-Identifier: Apache-2.0
// Masks against brute force: which tokens may come next is found by asking of each whether a text
// of the language begins so.
#include "runtime/grammar/grammar.h"

#include <algorithm>
#include <regex>
#include <string>

#include <gmock/gmock.h>
#include <sinter/error.h>

#include "runtime/sandbox/sandbox.h"

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
      {of_text(Kind::kRegex, "a{5,2}"), "lower bound"},
      {of_text(Kind::kRegex, "a{99999999999999999999}"), "too large"},
      {of_text(Kind::kRegex, "(?=a)b"), "lookahead"},
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
      {of_text(Kind::kJsonSchema,
               R"({"type": "object", "required": ["a"], "additionalProperties": false})"),
       "names 'a'"},
      {of_text(Kind::kRegex, "a***"), "repeats what is repeated"},
      {of_text(Kind::kRegex, "*a"), "repeats nothing"},
      {of_text(Kind::kRegex, repeated("(a|", 200) + "b" + repeated(")", 200)), "48 parentheses"},
      {of_text(Kind::kJsonSchema, R"({"$ref": "#"})"), "'$ref' leads to this schema itself"},
      {of_text(Kind::kJsonSchema, R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})"), "itself"},
      {of_text(Kind::kJsonSchema, R"({"type": "object", "minProperties": 2})"), "'minProperties'"},
      {of_text(Kind::kJsonSchema, R"({"type": "string", "format": "color"})"), "'color'"},
      {of_text(Kind::kJsonSchema, R"({"type": "number", "multipleOf": 0.1})"), "'multipleOf'"},
      {of_text(Kind::kJsonSchema, R"({"type": "object", "properties": {"ab": {"type": "null"}},
          "patternProperties": {"^a": {"type": "boolean"}}})"),
       "'patternProperties'"},
      {of_text(Kind::kJsonSchema, R"({"$ref": "http://a/b"})"), "http://a/b"},
      {of_text(Kind::kJsonSchema, R"({"$ref": "#/a"})"), "not there"},
      {of_text(Kind::kJsonSchema, R"({"anyOf": [{}], "properties": {}})"), "beside 'anyOf'"},
      {of_text(Kind::kJsonSchema, R"({"allOf": [{}, {}]})"), "'allOf'"},
      {of_text(Kind::kJsonSchema, R"({"minLength": 3})"), "needs a 'type'"},
      {of_text(Kind::kJsonSchema, R"({"type": "string", "enum": ["a", 1]})"), "not of the 'type'"},
      {of_text(Kind::kJsonSchema, R"({"type": "string", "pattern": 1})"), "'pattern'"},
      {of_text(Kind::kJsonSchema, R"({"type": "string", "pattern": "(?!a)b"})"), "ookahead"},
      {of_text(Kind::kJsonSchema,
               R"({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 2}]})"),
       "oneOf"},
      {of_text(Kind::kStructuralTag, R"({"type": "structural_tag"})"), "format"}};
  for (const auto& [constraint, reason] : cases)
    EXPECT_THAT(refusal(constraint), HasSubstr(reason)) << constraint.text;
}

/// Whether a text of single bytes is one of the constraint's.
class Texts {
 public:
  explicit Texts(const Constraint& constraint) : compiler_(bytes_.compiler()) {
    grammar_ = compiler_.compile(constraint);
  }
  bool accept(const std::string& text) const {
    const std::vector<TokenId> stops = {bytes_.end()};
    Matcher matcher(grammar_, stops);
    for (const char c : text) {
      const TokenId token = static_cast<unsigned char>(c);
      if (matcher.has_ended() || !grammar::allows(matcher.mask(), token)) return false;
      matcher.accept(token);
    }
    return matcher.has_ended() || grammar::allows(matcher.mask(), bytes_.end());
  }

 private:
  static Vocabulary all_bytes() {
    Vocabulary vocabulary;
    for (int byte = 0; byte < 256; ++byte)
      vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
    vocabulary.tokens.emplace_back("");
    return vocabulary;
  }
  Vocabulary bytes_ = all_bytes();
  Compiler compiler_;
  std::shared_ptr<const Grammar> grammar_;
};

/// Each has texts that are of it, and texts that are not.
TEST(Grammar, TextsOfSchemasAreJsonThatSatisfiesThem) {
  struct Case {
    const char* schema;
    std::vector<std::string> right, wrong;
  };
  const std::vector<Case> cases = {
      // What JSON escapes comes as its escape.
      {R"({"type": "string", "pattern": "^\"$"})", {R"("\"")"}, {R"(""")", R"("")"}},
      {R"({"type": "string", "pattern": "^C:\\\\[a-z]+$"})",
       {R"("C:\\tcab")"},
       {R"("C:\tcab")", R"("C:\\")"}},
      {R"({"type": "string", "pattern": "^a\\nb$"})", {R"("a\nb")"}, {"\"a\nb\"", R"("anb")"}},
      {R"({"type": "string", "pattern": "^[\\x00-\\x1f]$"})",
       {R"("\u0001")", R"("\t")"},
       {"\"\x01\"", R"("a")"}},
      // Of a pattern that is not anchored, anything may stand around.
      {R"({"type": "string", "pattern": "b"})", {R"("b")", R"("abc")"}, {R"("ac")"}},
      {R"({"type": "string", "pattern": "^a|b$"})", {R"("ax")", R"("xb")"}, {R"("xa")"}},
      {R"({"type": "string", "maxLength": 2})",
       {R"("")", R"("\u00e9\\")", "\"\u20ac\u20ac\"", R"("\ud83d\ude00x")"},
       {R"("abc")", "\"\n\"", R"("\ud83d")", R"("\ud83dx")", "\"\xED\xA0\x80\""}},
      {R"({"type": "string", "pattern": "^a+$", "minLength": 2, "maxLength": 3})",
       {R"("aa")", R"("aaa")"},
       {R"("a")", R"("aaaa")"}},
      {R"({"type": "string", "format": "date"})", {R"("2024-02-28")"}, {R"("2024-02-31")"}},
      // Keys that are free are not those that are named, in any spelling.
      {R"({"type": "object", "properties": {"ab": {"type": "null"}}, "additionalProperties": true})",
       {R"({"ab":null,"a":1})", R"({"abc":1})", "{}"},
       {R"({"ab":1})", R"({"\u0061b":1})", R"({"a":1,"ab":2})"}},
      {R"({"type": "object", "patternProperties": {"^x": {"type": "null"}},
           "additionalProperties": {"type": "boolean"}})",
       {R"({"x1":null,"a":true})", R"({"a":true,"x":null})"},
       {R"({"x1":true})", R"({"a":null})"}},
      {R"({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}},
           "minProperties": 2})",
       {R"({"a":null,"b":null})"},
       {R"({"a":null})", "{}", R"({"a":null,"a":null})"}},
      {R"({"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 1,
           "maxProperties": 2})",
       {R"({"a":null})", R"({"a":null,"b":null})"},
       {"{}", R"({"a":null,"b":null,"c":null})"}},
      {R"({"type": "object", "required": ["z"], "additionalProperties": {"type": "null"}})",
       {R"({"z":null})", R"({"z":null,"a":null})"},
       {R"({"a":null})"}},
      {R"({"$defs": {"a/b~c %": {"const": 1}}, "$ref": "#/$defs/a~1b~0c%20%25"})", {"1"}, {"2"}},
      {R"({"type": "integer", "minimum": -12, "exclusiveMaximum": 103})",
       {"-12", "-1", "0", "9", "99", "102"},
       {"-13", "103", "-0", "00", "1.5", "200"}},
      {R"({"type": "number", "exclusiveMinimum": -0.25, "maximum": 1.05})",
       {"-0.2", "-0.2499", "0", "0.0", "1.05", "1.0500", "1.04999"},
       {"-0.25", "-0.3", "1.051", "1.06", "2", "1e0"}},
      {R"({"type": "integer", "multipleOf": 7, "minimum": 1})",
       {"7", "14", "700"},
       {"0", "8", "-7"}},
      {R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": {"const": 3},
           "minItems": 1, "maxItems": 4})",
       {"[1]", "[1,2]", "[1,2,3,3]"},
       {"[]", "[2]", "[1,3]", "[1,2,3,3,3]"}},
      {R"({"oneOf": [{"type": "object", "properties": {"k": {"const": 1}}, "required": ["k"]},
                     {"type": "object", "properties": {"k": {"const": 2}}, "required": ["k"]}]})",
       {R"({"k":1})", R"({"k":2})"},
       {R"({"k":3})"}},
      {R"({"type": ["string", "null"], "enum": ["a\"", null, 1.0]})", {}, {}},
      {R"({"enum": ["a\"", null, 0.1]})", {R"("a\"")", "null", "0.1"}, {"1"}}};
  for (const auto& [schema, right, wrong] : cases) {
    if (right.empty()) {
      EXPECT_THAT(refusal(of_text(Kind::kJsonSchema, schema)), HasSubstr("'enum'")) << schema;
      continue;
    }
    const Texts texts(of_text(Kind::kJsonSchema, schema));
    for (const std::string& text : right)
      EXPECT_TRUE(texts.accept(text)) << text << " of " << schema;
    for (const std::string& text : wrong)
      EXPECT_FALSE(texts.accept(text)) << text << " of " << schema;
  }
}

/// A process of its own gives the same masks, and what it cannot do is an error.
TEST(GrammarSandbox, CompilesTheSame) {
  const std::vector<Constraint> constraints = {
      of_text(Kind::kRegex, "(ab|ba|c)+"),
      of_text(Kind::kRegex, "(a|bc){1,3}a?"),
      of_text(Kind::kGrammar, "root ::= \"a\" root \"b\" | \"c\"\n"),
      {Kind::kChoice, "", {"abc", "ab", "bcabcc"}}};
  std::vector<std::vector<std::uint32_t>> masks[2];
  for (int i = 0; i < 2; ++i) {
    if (i == 1) sandbox::start();
    Compiler compiler = kLetters.compiler();
    for (const Constraint& constraint : constraints) {
      Matcher matcher(compiler.compile(constraint), std::vector<TokenId>{kLetters.end()});
      for (int step = 0; step < 4 && !matcher.has_ended(); ++step) {
        const auto mask = matcher.mask();
        masks[i].emplace_back(mask.begin(), mask.end());
        TokenId token = 0;
        while (token < kLetters.end() && !grammar::allows(mask, token)) ++token;
        matcher.accept(token);
      }
    }
  }
  EXPECT_EQ(masks[0], masks[1]);
  Compiler compiler = kLetters.compiler();
  const auto why = [&](const Constraint& constraint) -> std::string {
    try {
      compiler.compile(constraint);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_THAT(why(of_text(Kind::kRegex, "(a")), HasSubstr("regular expression: the expression"));
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
