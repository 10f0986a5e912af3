"""The room of trees and commits: scans the user's tree, writes candidates, exports them exactly."""
