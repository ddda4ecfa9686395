// SPDX-License-Identifier: Apache-2.0
// `sinter report`: the page is whole and safe, its data are right, and two reports are put side by
// side. check_report_page.py looks at pages in a browser.
#include "tools/report/report.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include "tests/tools/cli_fixture.h"
#include "tools/report/onnx_graph.h"
#include "tools/report/page.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

class ReportTest : public CliTest {
 protected:
  /// The data of the page that `words` make.
  json data_of(std::vector<std::string> words) {
    words.insert(words.begin(), "report");
    words.insert(words.end(), {"-o", path("page.html")});
    const auto result = sinter(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return data_in(read(path("page.html")));
  }
  static json data_in(const std::string& page) {
    const std::string open = "<script type=\"application/json\" id=\"data\">";
    const auto from = page.find(open) + open.size();
    return json::parse(page.substr(from, page.find("</script>", from) - from));
  }
  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  }
  static std::vector<std::string> names(const json& list) {
    std::vector<std::string> all;
    for (const auto& each : list) all.push_back(each.at("name"));
    return all;
  }
};

TEST_F(ReportTest, AModelHasItsNodesKernelsMemoryAndTimes) {
  const json report =
      data_of({save(small_model()), "--target=cpu", "--shapes=x:3x8", "--rounds=1"}).at("report");
  EXPECT_EQ(report.at("summary").at("title"), "model.onnx");
  EXPECT_EQ(report.at("summary").at("shapes"), "x [3, 8]");
  const json& graph = report.at("graph");
  EXPECT_THAT(names(graph.at("nodes")), ElementsAre("product", "bias", "activation", "normalise"));
  EXPECT_EQ(graph.at("nodes")[3].at("op"), "Softmax");  // the model's, not what became of it
  EXPECT_EQ(graph.at("edges"), json::parse("[[0,1],[1,2],[2,3]]"));
  const json& steps = report.at("step_list");
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].at("region"), "matmul");
  EXPECT_THAT(steps[0].at("body").get<std::string>(), HasSubstr("MatMul"));
  EXPECT_EQ(steps[0].at("writes"), steps[1].at("reads"));
  EXPECT_THAT(report.at("decisions"), Not(testing::IsEmpty()));
  // The page folds away what did nothing.
  std::map<std::string, bool> changed;
  for (const auto& pass : report.at("passes")) changed[pass.at("pass")] = pass.at("changed");
  EXPECT_TRUE(changed.at("fuse_matmul"));
  EXPECT_FALSE(changed.at("fuse_custom"));
  EXPECT_EQ(report.at("profile").at("steps").size(), 2U);
  EXPECT_EQ(report.at("profile").at("steps")[0].at("stream"), 0);
  EXPECT_EQ(report.at("profile").at("transfers").at("host_to_device_us"), 0);
  std::vector<json> in_arena;
  for (const auto& buffer : report.at("buffers"))
    if (buffer.at("kind") == "Arena") in_arena.push_back(buffer.at("bytes"));
  EXPECT_THAT(in_arena, ElementsAre(3 * 4 * 4));
}

TEST_F(ReportTest, APlanHasTheNodesOfItsKernels) {
  const json report = data_of({compile_small(), "--no-profile"}).at("report");
  EXPECT_FALSE(report.at("summary").at("is_model"));
  EXPECT_TRUE(report.at("profile").is_null());
  std::set<std::string> origins;
  for (const auto& node : report.at("graph").at("nodes")) {
    EXPECT_GE(node.at("step"), 0);
    for (const auto& origin : node.value("origins", json::array({node.at("name")})))
      origins.insert(origin);
  }
  EXPECT_THAT(origins, UnorderedElementsAre("product", "bias", "activation", "normalise"));
  EXPECT_FALSE(report.contains("decisions"));
}

TEST_F(ReportTest, ThePageIsOneWholeFileThatLoadsNothing) {
  data_of({compile_small(), "--no-profile"});
  const std::string page = read(path("page.html"));
  EXPECT_THAT(page, testing::StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, testing::EndsWith("</html>\n"));
  EXPECT_EQ(count(page, "<script"), count(page, "</script>"));
  EXPECT_EQ(count(page, "{{"), 0U) << "something of the template was not filled in";
  for (const char* loads : {" src=", "@import", "<link rel=\"styles"})
    EXPECT_EQ(count(page, loads), 0U) << loads;
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy\" content=\"default-src 'none'"));
  for (const char* file : {"style.css", "base.js", "layout.js", "details.js", "graph.js",
                           "charts.js", "panels.js", "main.js", "d3.min.js", "LICENSE.d3"})
    EXPECT_FALSE(tools::page_file(file).empty()) << file;
}

TEST_F(ReportTest, NamesOfAModelCannotLeaveTheirPlace) {
  auto model = small_model();
  const std::string name = "</script><img src=x onerror=alert(1)>\xff";
  model.mutable_graph()->mutable_node(0)->set_name(name);
  const json whole = data_of({save(model, "<b>&amp;.onnx"), "--target=cpu", "--no-profile"});
  EXPECT_THAT(whole.at("report").at("graph").at("nodes")[0].at("name").get<std::string>(),
              testing::StartsWith("</script><img src=x onerror=alert(1)>"));
  const std::string page = read(path("page.html"));
  EXPECT_EQ(count(page, "<img"), 0U);
  EXPECT_EQ(count(page, "<script"), count(page, "</script>"));
  EXPECT_THAT(page, HasSubstr("<title>&lt;b&gt;&amp;amp;.onnx"));
}

TEST_F(ReportTest, KernelsHaveTheirErrors) {
  const std::string plan = compile_small();
  const json report =
      data_of({path("model.onnx"), "--target=cpu", "--no-profile", "--verify"}).at("report");
  ASSERT_FALSE(report.at("errors").empty());
  for (const json& region : report.at("errors")) {
    EXPECT_LE(region.at("relative_error").get<double>(), region.at("tolerance").get<double>());
    EXPECT_TRUE(std::ranges::any_of(report.at("step_list"), [&](const json& step) {
      return step.at("name") == region.at("region");
    })) << region;
  }
  const auto refused = sinter({"report", plan, "--verify", "-o", path("p.html")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("make the report of the model"));
}

TEST_F(ReportTest, TimesAndComparisonsAreTakenFromFiles) {
  const std::string plan = compile_small();
  const std::string profile = write(
      "profile.json", sinter({"profile", plan, "--shapes=x:5x8", "--rounds=1", "--json"}).out);
  const std::string compare =
      write("compare.json",
            sinter({"compare", path("model.onnx"), "--target=cpu", "--rounds=2", "--json"}).out);
  const json report = data_of({plan, "--profile", profile, "--compare", compare}).at("report");
  EXPECT_EQ(report.at("profile").at("whole_us"), json::parse(read(profile)).at("whole_us"));
  EXPECT_EQ(report.at("summary").at("shapes"), "x [5, 8]");  // the profile's
  EXPECT_TRUE(report.at("compare").at("variants").contains("fused"));

  json other = json::parse(read(profile));
  other["steps"][0]["name"] = "of_another_plan";
  const auto refused = sinter(
      {"report", plan, "--profile", write("other.json", other.dump()), "-o", path("p.html")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("'of_another_plan'"));
  EXPECT_FALSE(std::filesystem::exists(path("p.html")));
  EXPECT_EQ(sinter({"report", plan, "--profile", write("text.json", "no JSON")}).code, 2);
  EXPECT_EQ(sinter({"report", plan, "--profile", write("empty.json", "{}")}).code, 2);
}

TEST_F(ReportTest, TwoAreSideBySide) {
  const std::string plan = compile_small();
  data_of({path("model.onnx"), "--target=cpu", "--fuse=off", "--no-profile"});
  std::filesystem::rename(path("page.html"), path("before.html"));
  const json both = data_of({plan, "--no-profile", "--against", path("before.html")});
  EXPECT_EQ(both.at("report").at("step_list").size(), 2U);
  EXPECT_GT(both.at("against").at("step_list").size(), 2U);
  const auto refused = sinter({"report", plan, "--no-profile", "--against",
                               write("no.html", "<html>"), "-o", path("p.html")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("is no report of `sinter report`"));
  EXPECT_EQ(sinter({"report", plan, "-o", plan}).code, 2);  // its own input
}

TEST_F(ReportTest, WithoutARunTheRestIsShown) {
  // Index 7 of a table of two rows: random indices are 0 or 1, files may hold others.
  const std::string text =
      "graph @g(%i: i64[1]) {\n  %w = const f32[1, 4] splat(1)\n"
      "  %0 = Gather(%w, %i) {axis = 0} : f32[1, 4]\n  return y = %0\n}\n";
  const auto result = sinter({"report", write("g.txt", text), "--target=cpu", "--input-range",
                              "i=7..8", "-o", path("page.html"), "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_FALSE(json::parse(result.out).at("has_times"));
  EXPECT_THAT(result.err, HasSubstr("the report has no times"));
}

TEST(OnnxGraph, LoopsHangBelowTheirNodeAndConstantsNeedNoValues) {
  const char* text =
      "graph @g(%x: f32[4]) {\n"
      "  %w = const f32[4] #0123456789abcdef\n"
      "  %0 = Fused(%x, %w) {kind = \"pointwise\"} : f32[4] body @b(%a, %b) {  # from Add_1, "
      "Mul_2\n"
      "    %0 = Add(%a, %b) : f32[4]  # from Add_1\n"
      "    %1 = Mul(%0, %b) : f32[4]  # from Mul_2\n"
      "    return o = %1\n  }\n"
      "  return y = %0\n}\n";
  const auto graphs = tools::graphs_of_text(std::string(text) + text);
  ASSERT_EQ(graphs.size(), 2U);
  tools::OnnxGraph graph;
  tools::add_onnx_nodes(graphs[0], {{"Add_1", "Sum"}}, 0, graph);
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_EQ(graph.nodes[0].op, "Sum");
  EXPECT_EQ(graph.nodes[1].op, "Mul");
  EXPECT_EQ(graph.nodes[1].region, 0);
  EXPECT_THAT(graph.edges, ElementsAre(std::pair(0, 1)));
}

}  // namespace
}  // namespace sinter::tests
