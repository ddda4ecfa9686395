// SPDX-License-Identifier: Apache-2.0
// The server's page: files, types and headers, what the list of models says for it. Its behaviour:
// tests/serve/page.
#include "tools/serve/page.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/tools/serve/text_fixture.h"

namespace sinter::tests {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::string page_file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::set<std::string> matches_in(const std::string& text, const std::string& pattern) {
  const std::regex wanted(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator each(text.begin(), text.end(), wanted), end; each != end; ++each)
    found.insert((*each)[1]);
  return found;
}

bool is_ours(std::string_view name) { return !name.starts_with("vendor/"); }

TEST_F(ServeTest, PageHasAllItsFiles) {
  begin();
  const std::filesystem::path folder = source_dir() + "/tools/serve/page";
  std::set<std::string> names;
  for (const auto& file : tools::serve_page_files()) names.emplace(file.name);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const auto path = entry.path();
    const std::set<std::string> kinds = {".js", ".css", ".html", ".svg"};
    if (!entry.is_regular_file() || !kinds.contains(path.extension().string())) continue;
    EXPECT_THAT(names, Contains(path.lexically_relative(folder).string()));
  }
  for (const std::string& name : names) {
    const auto answer = client().Get(name == "index.html" ? "/" : "/page/" + name);
    ASSERT_TRUE(answer) << name;
    EXPECT_EQ(answer->status, 200) << name;
    const std::string type = answer->get_header_value("Content-Type");
    const std::string wanted = name.ends_with(".html")  ? "text/html"
                               : name.ends_with(".js")  ? "text/javascript"
                               : name.ends_with(".css") ? "text/css"
                               : name.ends_with(".svg") ? "image/svg+xml"
                                                        : "text/plain";
    EXPECT_TRUE(type.starts_with(wanted)) << name << ": " << type;
    // The licence's line is left out of what is put into the binary.
    EXPECT_TRUE(page_file_text(folder / name).ends_with(answer->body)) << name;
  }
  for (const char* path : {"/page/other.js", "/page/vendor/other.js", "/page/..%2fpage.h", "/page"})
    EXPECT_EQ(client().Get(path)->status, 404) << path;
}

TEST_F(ServeTest, PageLoadsItsOwnFilesAlone) {
  for (const auto& [name, view] : tools::serve_page_files()) {
    if (!is_ours(name)) continue;
    const std::string text(view);
    // Addresses are relative, so that a proxy may put the page below a prefix.
    std::set<std::string> loaded =
        matches_in(text, R"re((?:src|href)[=:] ?["'](?!#|\$)([^"']+)["'])re");
    loaded.merge(matches_in(text, R"re(url\(([^)]*)\))re"));
    for (const std::string& address : loaded) {
      EXPECT_TRUE(address.starts_with("page/")) << name << ": " << address;
      EXPECT_TRUE(std::filesystem::exists(source_dir() + "/tools/serve/" + address)) << address;
    }
    const std::string kImport = R"re((?:from |import\()["']([^"']+)["'])re";
    for (const std::string& module : matches_in(text, kImport)) {
      EXPECT_TRUE(module.starts_with("./")) << name << ": " << module;
      EXPECT_TRUE(std::filesystem::exists(source_dir() + "/tools/serve/page/" + module)) << module;
    }
    const std::string kSend = R"re((?:send|getJson|stream|fetch)\(["'`](/[^"'`]*|\w+:[^"'`]*))re";
    EXPECT_TRUE(matches_in(text, kSend).empty()) << name << " asks an absolute address";
    EXPECT_TRUE(matches_in(text, R"re((https?://)(?!www\.w3\.org/))re").empty()) << name;
    // What the policy forbids, or would let a model's text act.
    for (const char* no : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                           "eval(", "new Function", "<style", " style="})
      EXPECT_EQ(text.find(no), std::string::npos) << name << ": " << no;
    if (!name.ends_with(".html")) continue;
    EXPECT_TRUE(matches_in(text, R"re(\s(on\w+)=)re").empty()) << name << " has a handler in a tag";
    EXPECT_TRUE(matches_in(text, R"re(<script(?![^>]*\ssrc=)([^>]*)>)re").empty()) << name;
  }
}

TEST_F(ServeTest, PageHasAStrictPolicy) {
  begin();
  const auto page = client().Get("/");
  const std::string policy = page->get_header_value("Content-Security-Policy");
  for (const char* part :
       {"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';",
        "img-src 'self';", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
        "require-trusted-types-for 'script'"})
    EXPECT_THAT(policy, HasSubstr(part));
  EXPECT_THAT(policy, testing::Not(HasSubstr("unsafe")));
  EXPECT_EQ(page->get_header_value("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(page->get_header_value("Referrer-Policy"), "no-referrer");
}

TEST_F(ServeTest, PageIsSentOnce) {
  begin();
  const auto first = client().Get("/page/main.js");
  const std::string tag = first->get_header_value("ETag");
  EXPECT_FALSE(first->body.empty());
  EXPECT_EQ(first->get_header_value("Cache-Control"), "no-cache");
  const auto again = client().Get("/page/main.js", {{"If-None-Match", "\"other\", " + tag}});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->status, 304);
  EXPECT_TRUE(again->body.empty());
  EXPECT_EQ(again->get_header_value("ETag"), tag);
  EXPECT_FALSE(again->has_header("Content-Length"));
  EXPECT_EQ(client().Get("/page/main.js", {{"If-None-Match", "\"other\""}})->status, 200);
  EXPECT_NE(client().Get("/page/dom.js")->get_header_value("ETag"), tag);
}

TEST_F(ServeTest, PageNeedsNoKeyAndAKnownName) {
  tools::HttpOptions options;
  options.api_keys = {"secret"};
  begin(options);
  for (const char* path : {"/", "/page/main.js", "/page/vendor/marked.js"}) {
    EXPECT_EQ(client().Get(path)->status, 200) << path;
    EXPECT_EQ(client().Get(path, {{"Host", "evil.example"}})->status, 403) << path;
  }
}

TEST_F(ServeTest, ModelsSayWhatTheyCanBeAskedFor) {
  begin();
  const json model = json::parse(client().Get("/v1/models/tiny")->body);
  EXPECT_EQ(model["tasks"], json::array({"completion"}));
  EXPECT_EQ(model["prompt"], "ids");
  EXPECT_EQ(model["max_model_len"], kContext);
  EXPECT_EQ(model["tool_calls"], nullptr);
  EXPECT_EQ(model["sampling"]["temperature"], 1);
  EXPECT_EQ(model["sampling"]["top_k"], 0);
  EXPECT_EQ(model, json::parse(client().Get("/v1/models")->body)["data"][0]);
}

TEST_F(ServeTextTest, ModelsSayWhatTheyCanBeAskedFor) {
  write_template("{% for m in messages %}{{ m.content }}{% endfor %}<tool_call>");
  write("generation_config.json", R"({"temperature": 0.25, "top_k": 7})");
  begin();
  const json model = json::parse(client().Get("/v1/models/tiny")->body);
  EXPECT_EQ(model["tasks"], json::array({"chat", "completion"}));
  EXPECT_EQ(model["prompt"], "text");
  EXPECT_EQ(model["tool_calls"], "hermes");
  EXPECT_EQ(model["sampling"]["temperature"], 0.25);
  EXPECT_EQ(model["sampling"]["top_k"], 7);
}

}  // namespace
}  // namespace sinter::tests
