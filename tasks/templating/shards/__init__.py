"""The rows of one shard, in columns where they are plain, else one by one."""
