-- Asks for the pages of scripts/yaws.sh in turn.
local pages = {"/small.html", "/session.yaws", "/small.html", "/large.bin"}
local turn = 0

request = function()
   turn = turn % #pages + 1
   return wrk.format("GET", pages[turn])
end

done = function(summary)
   local e = summary.errors
   local failed = e.connect + e.read + e.write + e.status + e.timeout
   io.write(string.format("%d requests, %d failed, in %.1f s\n", summary.requests, failed, summary.duration / 1e6))
   io.write(string.format("throughput: %.0f requests/s\n", (summary.requests - failed) / summary.duration * 1e6))
end
