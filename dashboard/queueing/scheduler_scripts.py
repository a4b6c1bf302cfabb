"""The scheduler's Lua scripts: each one step that happens as a whole or not at all."""

# KEYS schedule, children, template. ARGV entry, score as read, next score or "" (it was the last),
# child or "" (left out), new meta or "". Does nothing when somebody else moved the entry on.
ADVANCE_SCRIPT = """
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) ~= tonumber(ARGV[2]) then return 0 end
if ARGV[4] ~= '' then redis.call('HSET', KEYS[2], ARGV[1], ARGV[4]) end
if ARGV[5] ~= '' then redis.call('HSET', KEYS[3], 'meta', ARGV[5]) end
if ARGV[3] ~= '' then
  redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
  redis.call('DEL', KEYS[3])
end
return 1
"""

# KEYS schedule, quarantine, children. ARGV entry, note.
QUARANTINE_SCRIPT = """
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HDEL', KEYS[3], ARGV[1])
return redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
"""

# KEYS epoch, pending. ARGV token. Refuses when Redis was emptied since the token was put there.
BEGIN_EPOCH_SCRIPT = """
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return 1
"""
